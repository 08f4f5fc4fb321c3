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

case_ 'the classes of each position, as the likeliest continuation has them'
{ echo 0,$(seq -s, 1 16); echo 0,$(seq -s, 21 36); echo 0,$(seq -s, 4 2 34); } >ids.csv
run_ "$MUSTER" convert csv --input ids.csv --output ids.h5 --shape 16
expect_exit 0
run_ "$MUSTER" predict r1 ids.h5 --inputs images --output ids.predicted
expect_exit 0
# 3 samples x 16 positions, each: index, position, the class with the largest of 39 probabilities, whose sum is 1
expect_equal "$(awk -F, '{
    sum = 0; best = 4
    for (i = 4; i <= NF; ++i) { sum += $i; if ($i > $best) best = i }
    if (NF == 42 && $1 == int((NR - 1) / 16) && $2 == (NR - 1) % 16 && $3 == best - 4 && sum > 0.99999 && sum < 1.00001) ++good
  } END { print good " of " NR }' ids.predicted)" '48 of 48'

case_ 'flags of the other way to predict, and a negative seed'
run_ "$MUSTER" predict r1 ids.h5 --inputs images --temperature 0.5
expect_exit 2
expect_contains 'predict: --temperature means nothing without --prompt; leave it out'
run_ "$MUSTER" predict r1 --prompt 'the q' --inputs images
expect_exit 2
expect_contains 'predict: --inputs means nothing without INPUT; leave it out'
run_ "$MUSTER" predict r1 --prompt 'the q' --tokens 2 --seed -1
expect_exit 2
expect_contains 'predict: --seed: expected a number >= 0, found -1'

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

case_ 'start weights with more blocks than the network'
sed 's/times: 2/times: 1/' gpt.yaml >short.yaml
run_ "$MUSTER" train short.yaml --set run.directory=other --set model.weights=gpt2.safetensors
expect_exit 8
expect_contains "the file holds 'h.1.attn.c_attn.bias', which the network does not have"
run_ "$MUSTER" export r1 own.safetensors
run_ "$MUSTER" train short.yaml --set run.directory=other --set model.weights=own.safetensors
expect_exit 8
expect_contains "the checkpoint holds 'block_2.attention.projection.bias', which the network does not have"
expect_no_file other

case_ 'GPT-2 has no rotary positions: such a network does not leave under its names'
sed 's/heads: 4/heads: 4, rotary_base: 10000/' gpt.yaml >rotary.yaml
run_ "$MUSTER" train rotary.yaml --set run.directory=rotary --set run.steps=1
expect_exit 0
run_ "$MUSTER" export rotary rotary.safetensors --names gpt2
expect_exit 2
expect_contains "layer 'block_1.attention.rotary': GPT-2 has no rotary positions here"
expect_no_file rotary.safetensors

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
