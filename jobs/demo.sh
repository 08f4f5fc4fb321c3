#!/usr/bin/env bash
# `make demo`: the real Fashion-MNIST, a CNN with batch norm and dropout, two ranks, a few epochs, an evaluation.
set -eu
cd "$(dirname "$0")/.."
muster=${MUSTER:-build/muster}
data=data/fashion_mnist.h5
run=${DEMO_RUN:-runs/demo}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

bash jobs/data/fashion_mnist.sh "$muster" "$data"

ranks=2
if [ "$(nproc)" -lt 2 ]; then ranks=1; fi
echo "training configs/fashion_mnist/demo.yaml on $ranks ranks; the same by hand:"
echo "  mpirun -n $ranks $muster train configs/fashion_mnist/demo.yaml"
if [ -t 1 ]; then export MUSTER_PROGRESS=1; fi  # the live line
mpirun -n "$ranks" "$muster" train configs/fashion_mnist/demo.yaml --set run.directory="$run" --force
echo
echo "evaluating the newest checkpoint:"
"$muster" eval "$run" --confusion
cat <<END

The run lies in $run: config.yaml, metrics.jsonl, log.txt, checkpoints/.
Try next:
  $muster train configs/fashion_mnist/cnn.yaml            the full recipe, one process on all cores
  mpirun -n 2 $muster train configs/fashion_mnist/mirrored.yaml
  $muster predict $run $data --inputs /test/images        one line per sample
  $muster check configs/fashion_mnist/cnn.yaml --ranks 8  a config for another number of ranks, without running it
END
