#!/usr/bin/python3
"""One row a model: what compiling and running it costs here, and what the machine's model says.

    models.py [--bin build/release/bin] [--repeat N] [--json out.json] [MODEL.onnx | FOLDER ...] [-- npuc flags]

Without models: the bundled one, and what lies in `shared` beside the sources: the networks that issue after issue is
measured on, `models/structure` and the light models of ONNX's backend tests. Columns: seconds of the npuc process; its
peak memory, and that as a multiple of the model's file (external data included); seconds of npu-run for one inference
on random inputs, start-up included (the least of N); modelled cycles, bound and efficiency, nodes on the NPU and DDR
traffic from the report. Exit code 1 if a model fails.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

# What the efficiency aims are stated for.
NETWORKS = """mobilenetv2-qdq squeezenet-fp16 mnist-cntk-op8 kws-micro-fp32 kws-micro-qdq kws-micro-qoperator ultraface-rfb320
yunet-n-dynamic yolox-nano superres-dyn-op15 selfie-seg-landscape mlperf-kws mlperf-vww mlperf-ic mlperf-ad person-detect
mobilenet-v2-u8 mobilenet-v1-025-u8 yolo-fastest-qdq""".split()
# Symbolic input shapes, fixed as their stored inputs have them.
SHAPES = {"yunet-n-dynamic": ["--input-shape", "input=1x3x160x160"]}

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
        code, row["compile_s"], error = run([os.path.join(args.bin, "npuc"), path, "-o", out, "-q"] + SHAPES.get(row["model"], []) + flags)
        if code:
            row["error"] = f"npuc exit {code}: {error}"
            return row
        row["binary_bytes"] = os.path.getsize(out)
        with open(os.path.join(tmp, "m.report.json"), encoding="utf-8") as f:
            report = json.load(f)
        row["peak_rss"] = report["compile"]["peak_rss_bytes"]
        data = path + "_data", path + ".data"
        row["model_bytes"] = sum(os.path.getsize(p) for p in (path,) + data if os.path.exists(p))
        perf = report["performance"]
        row.update(cycles=perf["cycles"], bound=perf["bound_cycles"], efficiency=perf["efficiency"], latency_ms=perf["latency_total_estimate_ms"],
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
    shared = os.path.join(ROOT, "..", "shared")
    given = args.models or (
        [os.path.join(ROOT, "models", "digits", "digits.onnx")]
        + [os.path.join(shared, "models", n + ".onnx") for n in NETWORKS]
        + [os.path.join(shared, "models", "structure"), os.path.join(shared, "onnx-backend-1.23", "light")]
    )
    paths = []
    for g in given:
        if os.path.isdir(g):
            paths += sorted(os.path.join(g, f) for f in os.listdir(g) if f.endswith(".onnx"))
        elif os.path.exists(g):
            paths.append(g)
    rows = []
    print(f"{'model':30s} {'compile':>8s} {'peak':>8s} {'/model':>7s} {'run':>8s} {'cycles':>11s} {'bound':>11s} {'effic':>6s} {'nodes':>6s} "
          f"{'est. ms':>9s} {'DDR':>8s} {'binary':>8s}")
    for path in paths:
        row = one(path, args, flags)
        rows.append(row)
        if "error" in row:
            print(f"{row['model']:30s} {row['error']}", flush=True)
            continue
        mib = lambda n: f"{n / 2**20:.1f}M"
        print(f"{row['model']:30s} {row['compile_s']:7.2f}s {mib(row['peak_rss']):>8s} {row['peak_rss'] / row['model_bytes']:7.1f} "
              f"{row['run_s']:7.2f}s {row['cycles']:11d} {row['bound']:11.0f} {row['efficiency']:6.3f} {row['nodes_percent']:5.1f}% "
              f"{row['latency_ms']:9.3f} {mib(row['ddr_bytes']):>8s} {mib(row['binary_bytes']):>8s}", flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
    bad = sum("error" in r for r in rows)
    print(f"{len(rows) - bad} models, {bad} failed")
    sys.exit(1 if bad or not rows else 0)


main()
