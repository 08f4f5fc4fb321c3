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
mkfifo pipe.h5
bad_data_ 'a pipe that nobody writes to' 3 'pipe.h5' 'found a pipe or device' -- --set data.train.file=pipe.h5
bad_data_ 'missing dataset' 3 '/images' "did you mean '/images'" -- --set data.train.inputs=/imagse
bad_data_ 'a batch beyond the data' 3 'at most the 12 samples' 'found 13' -- --set data.batch=13
bad_data_ 'a batch beyond counting' 2 'data.batch' 'at most 2147483647' -- --set data.batch=9223372036854775807
bad_data_ 'steps beyond counting' 2 'run.steps' 'at most 2147483647' -- --set run.steps=9223372036854775807
bad_data_ 'epochs beyond reason' 2 'run.epochs' '1000000' -- --set run.epochs=4611686018427387904 --set run.steps=
bad_data_ 'a layer beyond memory' 5 'out of host memory' -- --set 'model.layers=[flatten, {dense: {units: 2147483647}}]'
bad_data_ 'a shape beyond counting' 2 'more elements than can be counted' -- --set 'model.layers=[{reshape: {shape: [2147483647, 2147483647, 2147483647]}}, flatten, {dense: {units: 3}}]'
bad_data_ 'a name that leaves runs/' 2 'run.name' 'letters' -- --set run.name=../x
bad_data_ 'warmup_start without a warm-up' 2 'warmup_start' -- --set 'schedule={constant: {warmup_start: 0.5}}'
bad_data_ 'no_decay that names nothing' 2 "'nosuch'" -- --set 'optimizer={sgd: {lr: 0.1, no_decay: [nosuch]}}'
case_ 'check refuses what train refuses: a no_decay that names nothing'
run_ "$MUSTER" check good.yaml --set 'optimizer={sgd: {lr: 0.1, no_decay: [nosuch]}}'
expect_exit 2
expect_contains "no_decay names 'nosuch'"
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
/usr/bin/python3 - <<'EOP'
import h5py, numpy as np
with h5py.File("nan.h5", "w") as f:
    f["images"], f["labels"] = np.zeros((12, 1, 4, 4), "f4"), np.arange(12) % 3
    f["images"][0, 0, 0, 0] = np.nan
EOP
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

for launcher in 'OMPI_COMM_WORLD_SIZE=4' 'PMI_SIZE=4 PMI_RANK=0' 'PMIX_RANK=1'; do
  case_ "tasks of another MPI's launcher ($launcher) are many worlds of one"
  # shellcheck disable=SC2086
  run_ env $launcher "$MUSTER" train good.yaml --set run.directory=foreign
  expect_exit 4
  expect_contains "${launcher%% *}"
  expect_contains 'a world of one'
  expect_no_file foreign
done

case_ "a variable with muster's prefix that means nothing"
run_ env MUSTER_OPTIMISER_LR=1 "$MUSTER" train good.yaml --set run.directory=foreign
expect_exit 2
expect_contains "did you mean 'MUSTER_OPTIMIZER_LR'"
expect_no_file foreign

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

bad_convert_() { # NAME CODE TEXT FORMAT FLAGS...: nothing may be left behind
  local name=$1 code=$2 text=$3
  shift 3
  case_ "convert: $name"
  run_ "$MUSTER" convert "$@" --output x.h5
  expect_exit "$code"
  expect_contains "$text"
  expect_no_file x.h5
  expect_no_file x.h5.tmp
}
raw_files=(--input inputs.raw --target labels.raw)
printf '\0\0\x08\x03\0\0\0\0\0\0\0\0\0\0\0\0' >empty.idx
printf '\0\0\x08\x01\0\0\0\0' >none.idx
printf '\0\0\xc0\x7f%060d' 0 >nan.raw
printf '\1' >one.raw
bad_convert_ 'a shape beyond counting bytes' 3 'inputs.raw' raw "${raw_files[@]}" --dtype float32 --shape 4611686018427387904
bad_convert_ 'a shape beyond counting' 2 'more elements' raw "${raw_files[@]}" --shape 4611686018427387904,4,4
bad_convert_ 'no samples' 3 'expected samples, found none' idx --input empty.idx --target none.idx
bad_convert_ 'NaN' 3 'sample 0: element 0: expected finite numbers, found nan' raw --dtype float32 --shape 16 --input nan.raw --target one.raw
bad_convert_ '--dtype for idx' 2 'it is for raw' idx --input empty.idx --target none.idx --dtype float32
bad_convert_ '--shape for idx' 2 'it is for csv, npy, raw' idx --input empty.idx --target none.idx --shape 3,3
bad_convert_ '--label-column for raw' 2 'it is for csv' raw "${raw_files[@]}" --shape 1,4,4 --label-column last
bad_convert_ '--deflate for text' 2 'it is for idx' text --input labels.raw --deflate 3
bad_convert_ '--encoding for csv' 2 'it is for text' csv --input labels.raw --encoding bytes
for level in -1 10; do
  bad_convert_ "--deflate $level" 2 "--deflate: expected 0 (contiguous) to 9, found $level" raw "${raw_files[@]}" --shape 1,4,4 "--deflate=$level"
done

for place in folder /dev/null; do
  case_ "convert into $place"
  convert_ --output "$place" --force
  expect_exit 2
  expect_contains "expected a file or a free name"
  expect_no_file "$place.tmp"
done

case_ 'convert into a place that cannot be written'
convert_ --output /proc/x.h5
expect_exit 3
expect_contains '/proc/x.h5.tmp: cannot be created: No such file'

case_ 'convert on a full disk'
head -c 192000 /dev/zero >large.raw
head -c 12000 /dev/zero >zeros.raw
run_ bash -c "ulimit -f 40; trap '' XFSZ; exec \"\$MUSTER\" convert raw --input large.raw --target zeros.raw --shape 16 --output x.h5"
expect_exit 3
expect_contains 'x.h5: cannot be written: File too large'
expect_equal "$(wc -l <<<"$output")" 1 'lines of the message'
expect_no_file x.h5
expect_no_file x.h5.tmp

case_ 'an unknown format is a usage error'
run_ "$MUSTER" convert idxx --input inputs.raw --target labels.raw --output x.h5
expect_exit 2
expect_contains "did you mean 'idx'"
# What numpy can write and muster convert will not: odd numbers in files of other origin.
/usr/bin/python3 - <<'EOP'
import h5py, numpy as np
def write(name, x, y):
    with h5py.File(name, "w") as f:
        f["images"], f["labels"] = x, y
ok, labels = np.ones((12, 1, 4, 4), "f8"), np.arange(12, dtype="i8") % 3
bad = ok.copy(); bad[5, 0, 1, 1] = np.nan
write("nan64.h5", bad, labels)
bad = ok.copy(); bad[7, 0, 0, 0] = 1e300
write("big64.h5", bad, labels)
wide = labels.copy(); wide[3] = 2**32 + 1
write("wide.h5", ok, wide)
targets = np.full((12, 3), 0.5, "f4"); targets[4, 1] = np.nan
write("nantarget.h5", ok, targets)
targets[4, 1] = 1.5
write("beyond.h5", ok, targets)
write("strings.h5", np.array([b"a"] * 12), labels)
write("floats.h5", ok, np.zeros(12, "f4"))
write("ok.h5", ok, labels)
EOP
for found in 'nan64.h5 5 nan' 'big64.h5 7 inf'; do  # found as the samples come
  read -r file sample value <<<"$found"
  case_ "float64 that holds $value"
  run_ "$MUSTER" train good.yaml --set run.directory="bad$value" --set data.train.file="$file" --set data.shuffle=none
  expect_exit 3
  expect_contains "$file:/images"
  expect_contains "sample $sample holds $value"
done
bad_data_ 'a label beyond int32' 3 'sample 3 has label 4294967297' -- --set data.train.file=wide.h5
bad_data_ 'NaN in the targets' 3 'target 1 of sample 4 is nan' -- --set data.train.file=nantarget.h5 --set model.loss=mean_squared_error
bad_data_ 'a target that is no probability' 3 'target 1 of sample 4 is 1.5' -- --set data.train.file=beyond.h5 --set model.loss=binary_cross_entropy
bad_data_ 'wrong dtype' 3 'strings.h5' -- --set data.train.file=strings.h5
bad_data_ 'files whose targets differ in type' 3 'must agree' -- --set 'data.train={files: [ok.h5, floats.h5]}'

case_ 'one run directory, one process'
run_ "$MUSTER" train good.yaml --set run.directory=busy
expect_exit 0
exec 9<busy
flock -n 9
run_ "$MUSTER" train good.yaml --set run.directory=busy --force
expect_exit 2
expect_contains 'another muster is training in busy'
exec 9<&-
run_ "$MUSTER" train good.yaml --set run.directory=busy --force
expect_exit 0

refused_resume_() { # NAME CODE TEXT -- FLAGS...: the run must stay as it was
  case_ "resume: $1"
  cp busy/config.yaml before.yaml
  run_ "$MUSTER" train good.yaml --set run.directory=busy --resume --set run.steps=6 "${@:5}"
  expect_exit "$2"
  expect_contains "$3"
  expect_same_file busy/config.yaml before.yaml
}
refused_resume_ 'another batch' 2 'another order of samples' -- --set data.batch=3
refused_resume_ 'another seed' 2 'another order of samples' -- --set run.seed=2
refused_resume_ 'another shuffle' 2 'another order of samples' -- --set data.shuffle=none
refused_resume_ 'another split' 2 'another order of samples' -- --set 'data.train.range=[0, 8]'
refused_resume_ 'another network' 8 'config it was made with' -- --set 'model.layers=[flatten, {dense: {units: 5}}, {dense: {units: 3}}]'
refused_resume_ 'a network with less' 8 'which the network does not have' -- --set 'model.layers=[flatten, {dense: {name: dense_2, units: 3}}]'
refused_resume_ 'an end before the checkpoint' 2 "beyond the run's end" -- --set run.steps=2
case_ 'predict under mpirun is refused'
ranks_ 2 "$MUSTER" predict busy good.h5
expect_exit 4
expect_contains 'start it without mpirun'

finish
