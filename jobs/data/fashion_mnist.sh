#!/usr/bin/env bash
# Turns Debian's package dataset-fashion-mnist into one HDF5 file: /train/images, /train/labels, /test/images, /test/labels.
#   jobs/data/fashion_mnist.sh MUSTER OUTPUT        does nothing where OUTPUT is there already
set -eu
muster=$1 output=$2
[ -s "$output" ] && exit 0
source_folder=$(dirname "$(dpkg -L dataset-fashion-mnist | grep 'train-images-idx3-ubyte' | head -n 1)")
mkdir -p "$(dirname "$output")"
part=$output.part
rm -f "$part"
"$muster" convert idx --input "$source_folder/train-images-idx3-ubyte.gz" --target "$source_folder/train-labels-idx1-ubyte.gz" \
  --output "$part" --inputs-name train/images --targets-name train/labels
"$muster" convert idx --append --input "$source_folder/t10k-images-idx3-ubyte.gz" --target "$source_folder/t10k-labels-idx1-ubyte.gz" \
  --output "$part" --inputs-name test/images --targets-name test/labels
mv "$part" "$output"
