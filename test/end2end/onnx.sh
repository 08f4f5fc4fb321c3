#!/usr/bin/env bash
# muster export to ONNX: the exported network, run by the rules of ONNX, gives what muster predict gives.
source "$(dirname "$0")/lib.sh"
python=${ONNX_PYTHON:-/usr/bin/python3} # one with onnxruntime also runs the models by that

# same_ RUN MODE SHAPE [TOKENS]: random inputs through the exported model of the run and through muster predict
same_() {
  run_ "$MUSTER" export "$1" "$1.onnx" --force
  expect_exit 0
  expect_contains "$1.onnx: ONNX opset 17"
  /usr/bin/python3 -c '
import sys, h5py, numpy as np
name, shape, tokens = sys.argv[1], [int(n) for n in sys.argv[2].split(",")], int(sys.argv[3])
draw = np.random.default_rng(5)
x = draw.integers(0, tokens, shape, "i4") if tokens else draw.normal(size=shape).astype("f4")
np.save(name + ".npy", x)
h5py.File(name + ".h5", "w")["x"] = x' "$1" "$3" "${4:-0}" || fail_case 'no inputs'
  "$MUSTER" predict "$1" "$1.h5" --inputs x >"$1.csv" 2>predict.log || fail_case "predict: $(cat predict.log)"
  run_ "$python" "$MUSTER_SOURCE/test/end2end/run_onnx.py" "$1.onnx" "$1.npy" "$1.csv" "$2"
  expect_exit 0
  expect_contains 'numpy: '
}
# trained_ RUN: RUN.yaml, some steps
trained_() {
  run_ "$MUSTER" train "$1.yaml" --set run.directory="$1"
  expect_exit 0
}

case_ 'images: convolutions, pools, norms, branches, activations'
cat >images.yaml <<'EOC'
run: {name: images, seed: 3, steps: 30}
parallel: {lr_scaling: none}
data: {synthetic: {samples: 300, classes: 5, shape: [3, 12, 10]}, batch: 20}
model:
  input: [3, 12, 10]
  layers:
    - conv2d: {filters: 8, kernel: 3, padding: same}
    - relu
    - conv2d: {filters: 8, kernel: [3, 2], stride: [2, 1], padding: [1, 0, 2, 1], groups: 2, bias: false}
    - batch_norm
    - relu
    - residual:
        main: [{conv2d: {filters: 8, kernel: 3, padding: [2, 2], dilation: 2}}, batch_norm]
    - relu
    - concat:
        branches:
          a: [{conv2d: {filters: 4, kernel: 1}}, gelu]
          b: [{conv2d: {filters: 4, kernel: 3, padding: same}}, silu]
    - max_pool2d: {kernel: 2, padding: same}
    - average_pool2d: {kernel: 3, stride: 1, padding: same}
    - dropout: {rate: 0.2}
    - add:
        branches: {a: [global_average_pool], b: [global_max_pool], c: [global_max_pool, tanh]}
    - dense: {units: 12}
    - layer_norm
    - sigmoid
    - dense: {units: 12, activation: leaky_relu}
    - reshape: {shape: [3, 4]}
    - flatten
    - dense: {units: 5}
  loss: softmax_cross_entropy
optimizer: {momentum: {lr: 0.05}}
EOC
trained_ images
same_ images --softmax 7,3,12,10

case_ 'numbers instead of classes: they are the output itself'
cat >numbers.yaml <<'EOC'
run: {name: numbers, seed: 3, steps: 30}
parallel: {lr_scaling: none}
data: {train: {file: numbers_data.h5, inputs: x, targets: y}, batch: 10}
model:
  input: [6]
  layers: [{dense: {units: 9}}, {gelu: {approximate: tanh}}, {dense: {units: 4}}]
  loss: mean_squared_error
optimizer: {momentum: {lr: 0.05}}
EOC
/usr/bin/python3 -c '
import h5py, numpy as np
draw = np.random.default_rng(1)
with h5py.File("numbers_data.h5", "w") as f: f["x"], f["y"] = draw.normal(size=(60, 6)).astype("f4"), draw.normal(size=(60, 4)).astype("f4")'
trained_ numbers
same_ numbers --raw 5,6

for i in {1..300}; do echo "line $i of a text: the quick brown fox jumps over the lazy dog $((i * i % 97))"; done >text.txt
case_ 'sequences: a text as tokens'
run_ "$MUSTER" convert text --input text.txt --output text.h5
expect_exit 0
# gpt_ NAME OPTIONS...: a small model, trained and compared
gpt_() {
  cat >"$1.yaml" <<EOC
run: {name: $1, seed: 3, steps: 20}
parallel: {lr_scaling: none}
data: {train: {file: text.h5, tokens: train/tokens, window: 16}, batch: 8}
$(small_gpt_model_ "$2")
optimizer: {adam: {lr: 0.003}}
EOC
  trained_ "$1"
  same_ "$1" --softmax 3,16 39
}
for options in 'dropout: 0.1' 'kv_heads: 2, rotary_base: 10000, norm: rms_norm, kind: swiglu' 'causal: false, kv_heads: 1, approximate: none'; do
  case_ "a transformer with $options"
  gpt_ "gpt_${options//[^a-z0-9]/_}" "$options"
done

case_ 'what cannot be asked for'
run_ "$MUSTER" export images images.onnx
expect_exit 2
expect_contains 'images.onnx exists already'
run_ "$MUSTER" export images other.onnx --names gpt2
expect_exit 2
expect_contains '--names is for safetensors only'
run_ "$MUSTER" export images other --format onxn
expect_exit 2
expect_contains "expected safetensors, onnx or auto, found 'onxn'"
expect_no_file other
finish
