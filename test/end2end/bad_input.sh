#!/usr/bin/env bash
# Bad input: each kind has its exit code and one message that names the place, what was expected and what was found.
source "$(dirname "$0")/lib.sh"

cat >good.yaml <<'EOC'
run: {name: good, seed: 1, steps: 3}
parallel: {lr_scaling: none}
data: {train: {file: good.h5}, batch: 4}
model:
  input: [1, 4, 4]
  layers: [flatten, {dense: {units: 3}}]
  loss: softmax_cross_entropy
optimizer: {sgd: {lr: 0.1}}
EOC
# Twelve samples of 16 bytes, labels 0 1 2 0 1 2 ...
for i in $(seq 0 191); do printf "\\x$(printf %02x $((i % 251)))"; done >inputs.raw
for i in $(seq 0 11); do printf "\\x0$((i % 3))"; done >labels.raw
convert_() { run_ "$MUSTER" convert raw --input inputs.raw --target labels.raw --shape 1,4,4 "$@"; }

case_ 'the good case is good'
convert_ --output good.h5
expect_exit 0
run_ "$MUSTER" train good.yaml --set run.directory=good
expect_exit 0

bad_data_() { # NAME CODE EXPECTED... -- FLAGS...: trains good.yaml with flags
  local name=$1 code=$2 texts=() text
  shift 2
  while [ "$1" != -- ]; do texts+=("$1"); shift; done
  shift
  case_ "$name"
  run_ "$MUSTER" train good.yaml --set run.directory=bad "$@"
  expect_exit "$code"
  for text in "${texts[@]}"; do expect_contains "$text"; done
  expect_no_file bad
}

head -c 1500 good.h5 >short.h5
bad_data_ 'truncated HDF5' 3 'short.h5' 'truncated' -- --set data.train.file=short.h5
head -c 3000 /dev/zero >zero.h5
bad_data_ 'no HDF5 at all' 3 'zero.h5' 'expected an HDF5 file' -- --set data.train.file=zero.h5
bad_data_ 'missing file' 3 'nowhere.h5' 'No such file' -- --set data.train.file=nowhere.h5
mkdir folder
bad_data_ 'a folder instead of a file' 3 'folder' 'found a folder' -- --set data.train.file=folder
bad_data_ 'missing dataset' 3 '/images' "did you mean '/images'" -- --set data.train.inputs=/imagse
bad_data_ 'empty range' 2 'range' -- --set 'data.train.range=[4, 4]'
bad_data_ 'range outside' 3 '12 samples' -- --set 'data.train.range=[4, 40]'
bad_data_ 'wrong shape' 3 '[1, 4, 4]' '[1, 2, 8]' -- --set 'model.input=[1, 2, 8]'
bad_data_ 'label out of range' 3 'sample 2 has label 2' -- --set 'model.layers=[flatten, {dense: {units: 2}}]'
bad_data_ 'layers that do not fit' 2 'conv2d' '[channels, height, width]' -- --set 'model.layers=[flatten, {conv2d: {filters: 3, kernel: 3}}, flatten, {dense: {units: 3}}]'
bad_data_ 'a kernel larger than the image' 2 'does not fit' -- --set 'model.layers=[{conv2d: {filters: 3, kernel: 9}}, flatten, {dense: {units: 3}}]'
bad_data_ 'one class' 2 'one output per class' -- --set 'model.layers=[flatten, {dense: {units: 1}}]'
bad_data_ 'zero classes' 2 'units' -- --set 'model.layers=[flatten, {dense: {units: 0}}]'
bad_data_ 'unknown key' 2 'optimizer.sgd.lrr' "did you mean 'lr'" -- --set optimizer.sgd.lrr=1
bad_data_ 'mistyped value' 2 'data.batch' -- --set data.batch=many
bad_data_ 'impossible grid' 2 'grid' -- --set parallel.grid.data=3
bad_data_ 'a device that is not there' 4 'cuda' -- --set device.kind=cuda
bad_data_ 'more threads than cores' 4 'device.threads' -- --set device.threads=999

case_ 'NaN in the data is found and named'
printf '\x00\x00\xc0\x7f' >nan.raw
head -c 764 /dev/zero >>nan.raw
run_ "$MUSTER" convert raw --input nan.raw --target labels.raw --shape 1,4,4 --dtype float32 --output nan.h5
expect_exit 0
run_ "$MUSTER" train good.yaml --set run.directory=nan --set data.train.file=nan.h5 --set data.shuffle=none
expect_exit 3
expect_contains 'sample 0 holds'
expect_contains 'nan.h5'

case_ 'duplicate key with its position'
sed 's/^run: .*/run: {name: good, seed: 1, seed: 2, steps: 3}/' good.yaml >twice.yaml
run_ "$MUSTER" train twice.yaml
expect_exit 2
expect_match 'twice.yaml:1:[0-9]+'
expect_contains 'seed'

case_ 'all config errors at once'
sed -e 's/seed: 1/sede: 1/' -e 's/batch: 4/batch: -4/' good.yaml >errors.yaml
run_ "$MUSTER" train errors.yaml
expect_exit 2
expect_match 'errors.yaml:1:'
expect_match 'errors.yaml:3:'

case_ 'fewer samples than ranks'
ranks_ 3 "$MUSTER" train good.yaml --set run.directory=few --set 'data.train.range=[0, 2]' --set parallel.allow_oversubscribe=true
expect_exit 3
expect_contains '2 samples for 3 ranks'
expect_no_file few

case_ 'lr_scaling must be stated with more than one replica'
sed '/lr_scaling/d' good.yaml >unstated.yaml
ranks_ 2 "$MUSTER" train unstated.yaml --set run.directory=unstated
expect_exit 2
expect_contains 'lr_scaling'

case_ 'too many ranks for the cores, found before anything is written'

ranks_ 12 "$MUSTER" train good.yaml --set run.directory=crowd --set device.threads=1 --set data.batch=12
expect_exit 4
expect_contains 'parallel.allow_oversubscribe'
expect_no_file crowd

case_ 'srun without MPI support starts many worlds of one'
run_ env SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 "$MUSTER" train good.yaml --set run.directory=srun
expect_exit 4
expect_contains '--mpi=pmix'
expect_no_file srun

case_ 'an output that exists is not overwritten by convert'
convert_ --output good.h5
expect_exit 2
expect_contains '--force'

case_ 'convert says what a wrong file holds'
run_ "$MUSTER" convert idx --input inputs.raw --target labels.raw --output x.h5
expect_exit 3
expect_contains 'inputs.raw'
expect_no_file x.h5
expect_no_file x.h5.tmp

case_ 'an unknown format is a usage error'
run_ "$MUSTER" convert idxx --input inputs.raw --target labels.raw --output x.h5
expect_exit 2
expect_contains "did you mean 'idx'"
finish
