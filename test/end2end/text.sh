#!/usr/bin/env bash
# Texts: converting, training a small GPT with dropout and a tied head on 1, 2 and 3 ranks to the same bytes, continuing a
# text, weights out under the names of GPT-2 and in again, and what is refused.
source "$(dirname "$0")/lib.sh"
LIMIT_S=120

for i in $(seq 1 120); do echo "$i: the quick brown fox number $((i * 7919 % 1000)) jumps over $((i * 31 % 97)) lazy dogs"; done >text.txt

case_ 'a text becomes tokens and a vocabulary'
run_ "$MUSTER" convert text --input text.txt --output text.h5 --test-share 0.2
expect_exit 0
expect_match 'train/tokens [0-9]+, test/tokens [0-9]+, vocabulary of 39 characters'

cat >gpt.yaml <<EOC
run: {name: text, seed: 3, steps: 60, reproducible: bitwise}
parallel: {lr_scaling: none, grains: 6, allow_oversubscribe: true}
data:
  train: {file: text.h5, tokens: train/tokens, window: 16, stride: 5}
  test: {file: text.h5, tokens: test/tokens, window: 16}
  batch: 12
$(small_gpt_model_ 'dropout: 0.1, attention_dropout: 0.1')
optimizer: {adamw: {lr: 3e-3, clip_norm: 1}}
log: {every: 20 steps}
EOC
newest=checkpoints/step-00000060

case_ 'one rank trains'
run_ "$MUSTER" train gpt.yaml --set run.directory=r1
expect_exit 0
expect_match 'test +step 60 +loss [0-2]\.'

for n in 2 3; do
  case_ "bitwise: $n ranks leave the bytes of one rank"
  ranks_ "$n" "$MUSTER" train gpt.yaml --set "run.directory=r$n"
  expect_exit 0
  expect_same_file "r1/$newest/weights.safetensors" "r$n/$newest/weights.safetensors"
  expect_same_file "r1/$newest/state.h5" "r$n/$newest/state.h5"
done

case_ 'the likeliest continuation of a prompt, twice the same'
run_ "$MUSTER" predict r1 --prompt 'the q' --tokens 8 --temperature 0
expect_exit 0
expect_match '^the q.{8}$'
first=$output
run_ "$MUSTER" predict r1 --prompt 'the q' --tokens 8 --top-k 1 --seed 5
expect_equal "$output" "$first"

case_ 'a prompt with unknown signs'
run_ "$MUSTER" predict r1 --prompt 'the Q' --tokens 8
expect_exit 3
expect_contains "the text has 'Q', which is not among the 39 characters of the vocabulary"

case_ 'a context that is too long'
run_ "$MUSTER" predict r1 --prompt 'the q' --tokens 12
expect_exit 2
expect_contains "5 tokens of the prompt and 12 more are longer than the network's 16 positions"

case_ 'neither a file nor a prompt'
run_ "$MUSTER" predict r1
expect_exit 2
expect_contains 'expected INPUT or --prompt, found neither'

case_ 'weights leave under the names of GPT-2 and come in again'
run_ "$MUSTER" export r1 gpt2.safetensors --names gpt2
expect_exit 0
expect_true grep -q 'h.1.attn.c_attn.weight' gpt2.safetensors
run_ "$MUSTER" train gpt.yaml --set run.directory=again --set model.weights=gpt2.safetensors --set optimizer.lr=1e-30 --set run.steps=1
expect_exit 0
expect_same_file "r1/$newest/weights.safetensors" again/checkpoints/step-00000001/weights.safetensors

case_ 'start weights of another network'
run_ "$MUSTER" train gpt.yaml --set run.directory=other --set model.weights=r1/config.yaml
expect_exit 8
cat >wide.sed <<'EOC'
s/width: 24/width: 32/
EOC
sed -f wide.sed gpt.yaml >wide.yaml
expect_no_file other
run_ "$MUSTER" train wide.yaml --set run.directory=other --set model.weights=gpt2.safetensors
expect_exit 8
expect_contains "expected the tensor 'wte.weight' with shape [39, 32] for 'tokens.weight', found [39, 24]"

case_ 'a vocabulary that is larger than the network knows'
sed 's/vocabulary: 39/vocabulary: 38/; s/units: 39/units: 38/' gpt.yaml >few.yaml
run_ "$MUSTER" train few.yaml --set run.directory=few
expect_exit 3
expect_match 'has label 38, expected 0 <= label < 38'

case_ 'heads that do not divide the width'
sed 's/heads: 4/heads: 5/' gpt.yaml >heads.yaml
run_ "$MUSTER" check heads.yaml
expect_exit 2
expect_contains '5 heads must divide the width 24'

case_ 'tokens without a window, a window that the network does not have'
sed 's/window: 16, stride: 5/stride: 5/' gpt.yaml >window.yaml
run_ "$MUSTER" check window.yaml
expect_exit 2
expect_contains 'missing; tokens needs the ids per sample'
sed 's/window: 16/window: 8/' gpt.yaml >window.yaml
run_ "$MUSTER" train window.yaml --set run.directory=window
expect_exit 3
expect_contains 'samples have shape [8], model.input says [16]'

finish
