#!/usr/bin/python3
"""One row a model: what compiling and running it costs here, and what the machine's model says.

    models.py [--bin build/release/bin] [--repeat N] [--json out.json] [MODEL.onnx | FOLDER ...] [-- npuc flags]

Without models: the bundled one, and those of the folder `shared/models` beside the sources if it is there. Compile
seconds are the npuc process's, peak memory is what it reports of itself; run seconds are npu-run's for one inference on random inputs, start-up included (the
least of N); cycles and efficiency come from the report. Exit code 1 if a model fails.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(cmd):
    """(exit code, seconds, first line of stderr)"""
    start = time.time()
    p = subprocess.run(cmd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    lines = p.stderr.decode("utf-8", "replace").strip().splitlines()
    return p.returncode, time.time() - start, lines[0][:120] if lines else ""


def one(path, args, flags):
    row = {"model": os.path.splitext(os.path.basename(path))[0]}
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "m.bin")
        code, row["compile_s"], error = run([os.path.join(args.bin, "npuc"), path, "-o", out, "-q"] + flags)
        if code:
            row["error"] = f"npuc exit {code}: {error}"
            return row
        row["binary_bytes"] = os.path.getsize(out)
        with open(os.path.join(tmp, "m.report.json"), encoding="utf-8") as f:
            report = json.load(f)
        row["peak_rss"] = report["compile"]["peak_rss_bytes"]
        perf = report["performance"]
        row.update(cycles=perf["cycles"], efficiency=perf["efficiency"], latency_ms=perf["latency_total_estimate_ms"],
                   nodes_percent=report["coverage"]["node_percent"], ddr_bytes=perf["ddr_read_bytes"] + perf["ddr_write_bytes"],
                   sram_peak=report["memory"]["sram_peak"])
        for _ in range(args.repeat):
            code, seconds, error = run([os.path.join(args.bin, "npu-run"), out, "--random", "1", "--output-dir", os.path.join(tmp, "out"), "-q"])
            if code:
                row["error"] = f"npu-run exit {code}: {error}"
                return row
            row["run_s"] = min(seconds, row.get("run_s", seconds))
    return row


def main():
    argv = sys.argv[1:]
    flags = argv[argv.index("--") + 1:] if "--" in argv else []
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build", "release", "bin"))
    p.add_argument("--repeat", type=int, default=1)
    p.add_argument("--json")
    p.add_argument("models", nargs="*")
    args = p.parse_args(argv[: argv.index("--")] if "--" in argv else argv)
    given = args.models or [os.path.join(ROOT, "models", "digits", "digits.onnx"), os.path.join(ROOT, "..", "shared", "models")]
    paths = []
    for g in given:
        if os.path.isdir(g):
            paths += sorted(os.path.join(g, f) for f in os.listdir(g) if f.endswith(".onnx"))
        elif os.path.exists(g):
            paths.append(g)
    rows = []
    print(f"{'model':28s} {'compile':>8s} {'peak':>8s} {'run':>8s} {'cycles':>12s} {'effic':>6s} {'nodes':>6s} {'est. ms':>9s} {'DDR':>9s} {'binary':>9s}")
    for path in paths:
        row = one(path, args, flags)
        rows.append(row)
        if "error" in row:
            print(f"{row['model']:28s} {row['error']}", flush=True)
            continue
        mib = lambda n: f"{n / 2**20:.1f}M"
        print(f"{row['model']:28s} {row['compile_s']:7.2f}s {mib(row['peak_rss']):>8s} {row['run_s']:7.2f}s {row['cycles']:12d} {row['efficiency']:6.3f} "
              f"{row['nodes_percent']:5.1f}% {row['latency_ms']:9.3f} {mib(row['ddr_bytes']):>9s} {mib(row['binary_bytes']):>9s}", flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
    bad = sum("error" in r for r in rows)
    print(f"{len(rows) - bad} models, {bad} failed")
    sys.exit(1 if bad or not rows else 0)


main()
