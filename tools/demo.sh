#!/usr/bin/env bash
# Installs what is missing, builds, converts the shipped model with our own converter, and answers three prompts with it.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/build.sh llada llada_shipped

llada=build/release/bin/llada
mkdir -p build/models
for type in f16 q8_0 q4_0; do
  out=build/models/tiny-llada-$type.gguf
  [ models/tiny-llada/model.safetensors -ot "$out" ] || "$llada" convert models/tiny-llada "$out" --type $type
done

prompts=(
  "Sort the numbers from smallest to largest: 38 41 6 51 3"
  "Write as JSON: Eric is 31 years old, lives in Oslo and works as a baker."
  "Fred has 20 puzzles. Ken has 6 more than Fred. Theo has 3 fewer than Ken. How many puzzles do Fred and Theo have together?"
)
for prompt in "${prompts[@]}"; do
  printf '\n> %s\n' "$prompt"
  "$llada" run -m build/models/tiny-llada-f16.gguf -p "$prompt" </dev/null
done
cat <<'EOF'

This model knows five small tasks (models/README.md). Now try:
  export PATH=$PWD/build/release/bin:$PATH MODEL=build/models/tiny-llada-f16.gguf
  llada run $MODEL 'Sort the numbers from smallest to largest: 7 93 15 2'
  llada serve $MODEL         # then open http://localhost:8080: answers form before your eyes; OpenAI's protocol
  llada --help               # all commands; README.md goes on from here, with a real model behind it
EOF
