#!/usr/bin/env bash
# Training on GPUs, executed on the emulation (test/cuda_emulation): the losses of the CPU's plain loops on 1, 2 and 3
# ranks and under every schedule of the streams, checkpoints that go from one device to the other, and what is refused.
# Where the build has no emulation (no CUDA, or a sanitizer) only the refusals are tested, and a line says so.
source "$(dirname "$0")/lib.sh"
LIMIT_S=120
emulation=${MUSTER_BUILD:-$(dirname "$MUSTER")}/test/libmuster_cuda_emulated.so

cat >dense.yaml <<'EOC'
run: {name: dense, seed: 5, steps: 60, reproducible: bitwise}
parallel: {lr_scaling: none, grains: 6, allow_oversubscribe: true}
data:
  synthetic: {samples: 300, test_samples: 90, classes: 4, shape: [1, 6, 6]}
  batch: 16
model:
  input: [1, 6, 6]
  layers:
    - flatten
    - dense: {units: 24, activation: relu}
    - residual:
        main:
          - dense: {units: 24}
          - layer_norm
          - gelu
    - dropout: {rate: 0.2}
    - dense: {units: 4}
  loss: {softmax_cross_entropy: {label_smoothing: 0.1}}
optimizer: {adamw: {lr: 3e-3, clip_norm: 1}}
checkpoint: {every: 30 steps}
log: {every: 20 steps}
EOC
newest=checkpoints/step-00000060

case_ 'cuda where none works is refused with exit code 4 before anything is made'
run_ env EMULATION_DEVICES=0 MUSTER_CUDA_PLUGIN="$emulation" "$MUSTER" train dense.yaml --set device.kind=cuda --set run.directory=none
expect_exit 4
expect_contains 'device.kind: cuda cannot be used here'
expect_no_file none/config.yaml

case_ 'a plugin that is none is told apart'
echo 'no library' >nothing.so
run_ env MUSTER_CUDA_PLUGIN="$PWD/nothing.so" "$MUSTER" info
expect_exit 0
expect_match 'backend +cuda: cannot be used: .*nothing.so'

if [ ! -e "$emulation" ]; then
  echo "the rest is left out: this build has no emulation of CUDA ($emulation)"
  finish
fi
export MUSTER_CUDA_PLUGIN=$emulation

# losses_ RUN: "step split loss" of every line of the metrics, losses to four digits.
losses_() {
  sed -nE 's/.*"step":([0-9]+).*"loss":([0-9.e-]+).*/\1 \2/p' "$1/metrics.jsonl" | awk '{ printf "%s %.4f\n", $1, $2 }'
}

case_ 'auto falls back to the CPU with one line'
run_ env EMULATION_DEVICES=0 "$MUSTER" train dense.yaml --set run.directory=auto
expect_exit 0
expect_match 'device +cpu is used: cuda: no usable GPU'

case_ 'plain loops on the CPU, to compare with'
run_ "$MUSTER" train dense.yaml --set device.kind=ref --set run.directory=ref
expect_exit 0
expect_true test "$(losses_ ref | wc -l)" -ge 5

for schedule in eager lazy ahead; do
  case_ "emulated GPU, $schedule: the same losses"
  run_ env EMULATION_SCHEDULE=$schedule "$MUSTER" train dense.yaml --set device.kind=cuda --set run.directory=$schedule
  expect_exit 0
  expect_match 'device +cuda \(emulated GPU'
  expect_equal "$(losses_ $schedule)" "$(losses_ ref)" losses
  expect_same_file "eager/$newest/weights.safetensors" "$schedule/$newest/weights.safetensors"
done

for n in 2 3; do
  case_ "bitwise: $n ranks with a GPU each leave the bytes of one"
  ranks_ "$n" "$MUSTER" train dense.yaml --set device.kind=cuda --set run.directory="r$n"
  expect_exit 0
  expect_same_file "eager/$newest/weights.safetensors" "r$n/$newest/weights.safetensors"
  expect_same_file "eager/$newest/state.h5" "r$n/$newest/state.h5"
done

case_ 'multi_worker_mirrored on 2 ranks: the same losses'
ranks_ 2 "$MUSTER" train dense.yaml --set device.kind=cuda --set parallel.strategy=multi_worker_mirrored --set run.directory=multi
expect_exit 0
expect_equal "$(losses_ multi)" "$(losses_ ref)" losses

case_ 'a run goes on where it was stopped, from the checkpoint'
run_ "$MUSTER" train dense.yaml --set device.kind=cuda --set run.directory=resumed --set run.steps=30
expect_exit 0
run_ "$MUSTER" train dense.yaml --set device.kind=cuda --set run.directory=resumed --resume
expect_exit 0
expect_same_file "eager/$newest/weights.safetensors" "resumed/$newest/weights.safetensors"

case_ 'a run of the GPU is evaluated on the CPU'
run_ "$MUSTER" eval eager --set device.kind=cpu
expect_exit 0
expect_contains "$(losses_ ref | tail -n 1 | cut -d' ' -f2)"

cat >cnn.yaml <<'EOC'
run: {name: cnn, seed: 7, steps: 8, reproducible: bitwise}
parallel: {lr_scaling: none, grains: 4, allow_oversubscribe: true}
data:
  synthetic: {samples: 60, test_samples: 20, classes: 5, shape: [2, 8, 8]}
  batch: 12
model:
  input: [2, 8, 8]
  layers:
    - conv2d: {filters: 6, kernel: 3, padding: same, bias: false}
    - batch_norm
    - relu
    - residual:
        main:
          - conv2d: {filters: 6, kernel: 3, padding: same}
          - batch_norm
    - relu
    - max_pool2d: {kernel: 2}
    - flatten
    - dense: {units: 5}
  loss: softmax_cross_entropy
optimizer: {momentum: {lr: 0.05}}
log: {every: 3 steps}
EOC
cat >gpt.yaml <<'EOC'
run: {name: gpt, seed: 3, steps: 6, reproducible: bitwise}
parallel: {lr_scaling: none, grains: 3, allow_oversubscribe: true}
data:
  train: {file: text.h5, tokens: train/tokens, window: 12, stride: 5}
  test: {file: text.h5, tokens: test/tokens, window: 12}
  batch: 6
model:
  input: [12]
  layers:
    - embedding: {name: tokens, vocabulary: 40, width: 16}
    - positional_embedding
    - transformer: {name: block, heads: 4, dropout: 0.1, attention_dropout: 0.1}
    - layer_norm: {per_position: true}
    - dense: {units: 40, bias: false, per_position: true, tie: tokens}
  loss: softmax_cross_entropy
optimizer: {adamw: {lr: 3e-3, clip_norm: 1}}
log: {every: 2 steps}
EOC
for i in $(seq 1 12); do echo "$i the quick fox $((i * 79 % 100)) jumps"; done >text.txt
run_ "$MUSTER" convert text --input text.txt --output text.h5 --test-share 0.2

for network in cnn gpt; do
  last=checkpoints/step-0000000$([ $network = gpt ] && echo 6 || echo 8)
  case_ "$network: the losses of plain loops, on 1 and 2 ranks"
  run_ "$MUSTER" train $network.yaml --set device.kind=ref --set run.directory=$network-ref
  expect_exit 0
  run_ env EMULATION_SCHEDULE=lazy "$MUSTER" train $network.yaml --set device.kind=cuda --set run.directory=$network-1
  expect_exit 0
  expect_equal "$(losses_ $network-1)" "$(losses_ $network-ref)" losses
  ranks_ 2 "$MUSTER" train $network.yaml --set device.kind=cuda --set run.directory=$network-2
  expect_exit 0
  for file in weights.safetensors state.h5; do
    expect_same_file "$network-1/$last/$file" "$network-2/$last/$file"
  done
done

case_ 'a text is continued on the GPU as on the CPU'
run_ "$MUSTER" predict gpt-ref --prompt 'the qu' --tokens 5 --temperature 0
expect_exit 0
on_cpu=$output
run_ "$MUSTER" predict gpt-1 --prompt 'the qu' --tokens 5 --temperature 0
expect_exit 0
expect_equal "$(tail -n 1 <<<"$output")" "$(tail -n 1 <<<"$on_cpu")"

case_ 'the check on a card passes, here on the emulation'
run_ env GPU_PLUGIN="$emulation" SANITIZER=/nowhere BUILD="$(dirname "$(dirname "$emulation")")" bash "$MUSTER_SOURCE/test/cuda/check_gpu.sh"
expect_exit 0
expect_contains 'ok ops, losses and updates as ref'
expect_contains 'ok learns the same as on the CPU'

case_ 'the check on a card fails where there is none'
run_ env EMULATION_DEVICES=0 GPU_PLUGIN="$emulation" BUILD="$(dirname "$(dirname "$emulation")")" bash "$MUSTER_SOURCE/test/cuda/check_gpu.sh"
expect_exit 1
expect_contains 'not ok train cuda'

case_ 'an optimizer that the backend lacks is refused'
run_ "$MUSTER" train dense.yaml --set device.kind=cuda --set run.directory=lars --set 'optimizer={lars: {lr: 0.1}}'
expect_exit 2
expect_contains 'cuda has no lars'

case_ 'parameter servers with GPU workers are refused'
ranks_ 2 "$MUSTER" train dense.yaml --set device.kind=cuda --set run.directory=servers --set run.reproducible=fast --set parallel.grains=auto --set parallel.strategy=parameter_server --set parallel.servers=1 --set parallel.lr_scaling=none
expect_exit 2
expect_contains 'workers and servers compute on the CPU'

case_ 'out of device memory is exit code 5 with what is left'
run_ env EMULATION_MEMORY_MIB=32 "$MUSTER" train dense.yaml --set device.kind=cuda --set run.directory=small
expect_exit 5
expect_contains 'out of device memory'

finish
