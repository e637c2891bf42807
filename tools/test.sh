#!/usr/bin/env bash
# Installs what is missing, builds, runs every test. One closing line with counts; exit 1 if anything fails.
#
#   tools/test.sh [--preset release|debug|asan] [--no-shared] [ctest arguments]
#
# With a folder `shared` beside the sources (or NPUC_SHARED), the checks of test/e2e/shared_checks.txt run too.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

preset=release
use_shared=1
ctest_args=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --preset) preset=$2; shift 2 ;;
    --no-shared) use_shared=0; shift ;;
    -h|--help) sed -n '2,6p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) ctest_args+=("$1"); shift ;;
  esac
done
build="$root/build/$preset"
jobs=${NPUC_JOBS:-2}
start=$SECONDS

fail() { echo "tools/test.sh: FAILED: $1"; exit 1; }

third_party/install-deps.sh || fail "dependencies"
mkdir -p "$build"
cmake --preset "$preset" > "$build/configure.log" 2>&1 || { cat "$build/configure.log"; fail "configuration"; }
cmake --build "$build" -- -j"$jobs" || fail "build"

log="$build/ctest.log"
ctest --test-dir "$build" -j"$jobs" --output-on-failure ${ctest_args[@]+"${ctest_args[@]}"} 2>&1 | tee "$log" | grep -vE '^ *[0-9]+/[0-9]+ Test .* Passed|^ +Start +[0-9]+:'
ctest_code=${PIPESTATUS[0]}
failed=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#.*\*\*\*(Failed|Exception|Timeout|Not Run)' "$log")
skipped=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#.*\*\*\*Skipped' "$log")
total=$(grep -oE 'out of [0-9]+' "$log" | tail -1 | grep -oE '[0-9]+')
total=${total:-0}
[[ $total -eq 0 ]] && fail "no tests ran"

checks=0
checks_failed=0
shared=${NPUC_SHARED:-$root/../shared}
if [[ $use_shared -eq 1 && -d "$shared" && -f test/e2e/shared_checks.txt ]]; then
  shared=$(cd "$shared" && pwd)
  export NPUC_SHARED="$shared" NPUC_BIN="$build/bin" NPUC_BUILD="$build"
  while IFS= read -r line; do
    [[ -z "$line" || "$line" == \#* ]] && continue
    checks=$((checks + 1))
    out="$build/shared-check-$checks.log"
    if bash -c "$line" > "$out" 2>&1 < /dev/null; then
      echo "ok: $line: $(tail -1 "$out")"
    else
      checks_failed=$((checks_failed + 1))
      echo "FAILED: $line"
      tail -20 "$out" | sed 's/^/    /'
    fi
  done < test/e2e/shared_checks.txt
fi

echo "tools/test.sh: $((total - failed - skipped)) of $total tests passed, $failed failed, $skipped skipped, $((checks - checks_failed)) of $checks shared checks passed, $((SECONDS - start)) s"
[[ $failed -eq 0 && $ctest_code -eq 0 && $checks_failed -eq 0 ]]
