#!/usr/bin/env bash
# From nothing to an answer: builds npuc, compiles the bundled model, runs it on a bundled picture.
#
#   tools/demo.sh [OUT_DIR]        default: build/demo
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/demo}
bin=build/release/bin

third_party/install-deps.sh
if [ ! -x $bin/npuc ] || [ ! -x $bin/npu-run ]; then
  cmake --preset release >/dev/null
  cmake --build --preset release --target npuc npu-run npu-objdump npu-report
fi

mkdir -p "$out"
echo "== compile models/digits/digits.onnx"
$bin/npuc models/digits/digits.onnx -o "$out/digits.bin"
echo
echo "== run it on models/digits/sample.png"
$bin/npu-run "$out/digits.bin" --input image=models/digits/sample.png --preprocess models/digits/preprocess.yaml \
  --output-dir "$out" -q
# The output is a .npy file: a header, then ten floats.
tail -c 40 "$out/probabilities.npy" | od -An -v -w4 -t f4 |
  awk '{ p[NR - 1] = $1; if ($1 > p[best] + 0) best = NR - 1 } END { printf "the picture shows a %d (%.1f %% sure)\n", best, 100 * p[best] }'
echo
echo "reports: $out/digits.report.html (for people), $out/digits.report.json (for scripts)"
