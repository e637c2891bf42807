#!/usr/bin/python3
"""Checks reports against docs/report-schema.json and against themselves.

    tools/check_reports.py build/release/bin/npuc models/*.onnx     compile each, then check
    tools/check_reports.py --reports a.report.json ...              check what is there

Each ONNX node (bodies and calls aside, which the model file alone does not number) must be in `nodes` once; layers'
cycles, shares and traffic must add up to the totals. Needs python3-jsonschema; with python3-onnx, nodes are counted in
the model itself.
"""
import json
import os
import subprocess
import sys
import tempfile

import jsonschema

SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "report-schema.json")


def nodes_of(path):
    """Names of the main graph's nodes as the report calls them, or None without the onnx package."""
    try:
        import onnx
    except ImportError:
        return None
    graph = onnx.load(path, load_external_data=False).graph
    names = [n.name for n in graph.node]
    return [n.name if n.name and names.count(n.name) == 1 else None for n in graph.node]


def problems_of(report, schema, model=None):
    for error in jsonschema.Draft202012Validator(schema).iter_errors(report):
        yield "%s: %s" % ("/".join(map(str, error.absolute_path)), error.message[:200])
    nodes, layers, perf, cov = report["nodes"], report["layers"], report["performance"], report["coverage"]
    ids = [n["id"] for n in nodes]
    if len(set(ids)) != len(ids):
        yield "node ids are not unique"
    if not len(nodes) == cov["nodes_total"] == report["model"]["nodes"]:
        yield "nodes_total is %d, nodes has %d rows" % (cov["nodes_total"], len(nodes))
    for verdict in ("npu", "host", "eliminated"):
        if cov["nodes_" + verdict] != sum(n["verdict"] == verdict for n in nodes):
            yield "coverage.nodes_%s does not count its nodes" % verdict
    if any(n["verdict"] == "host" and not n["reasons"] for n in nodes):
        yield "a host node has no reason"
    if any(n["verdict"] == "npu" and n["layer"] < 0 for n in nodes):
        yield "an npu node is in no layer"
    if model:
        names = nodes_of(model)
        if names is not None:
            if len(names) > len(nodes):
                yield "the model has %d nodes, the report %d" % (len(names), len(nodes))
            missing = [n for n in names if n and n not in set(ids)]
            if missing and "domain" not in str(missing):
                yield "nodes without a row: %s" % missing[:5]
    # Each segment is rounded up to a whole cycle.
    cycles = sum(l["cycles"] for l in layers)
    if not 0 <= perf["cycles"] - cycles <= cov["npu_segments"]:
        yield "layers have %d cycles, performance %d" % (cycles, perf["cycles"])
    for key in ("ddr_read_bytes", "ddr_write_bytes"):
        if sum(l[key] for l in layers) != perf[key]:
            yield "layers' %s: %d, performance: %d" % (key, sum(l[key] for l in layers), perf[key])
    if perf["cycles"] and abs(sum(l["share"] for l in layers) - cycles / perf["cycles"]) > 1e-9:
        yield "shares do not add up"
    if perf["macs"] != sum(n["macs"] for n in nodes if n["verdict"] == "npu"):
        yield "performance.macs is not the sum of its nodes"
    for l in layers:
        if abs(sum(l["waits"].values()) - l["cycles"]) > 6:
            yield "layer %d: waits %s do not add up to %d cycles" % (l["id"], l["waits"], l["cycles"])
        if (l["bound_by"] == "") != (l["cycles"] == 0):
            yield "layer %d: bound by '%s' with %d cycles" % (l["id"], l["bound_by"], l["cycles"])
    if perf["efficiency"] > 1:
        yield "efficiency is above 1"
    if abs(sum(perf["energy_parts"].values()) - perf["energy_uj"]) > 1e-6 * max(1, perf["energy_uj"]):
        yield "energy_parts do not add up"
    if abs(sum(h["estimated_us"] for h in perf["host_steps"]) / 1000 + perf["latency_ms"]
           - perf["latency_total_estimate_ms"]) > 1e-6:
        yield "latency_total_estimate_ms is not NPU and host steps"
    for steps in report["timeline"]["engines"].values():
        if any(a[1] > b[0] for a, b in zip(steps, steps[1:])):
            yield "spans of an engine overlap"
    if any(not 0 <= v <= 1.000001 for _, v in report["timeline"]["mac"]):
        yield "MAC utilisation outside 0..1"
    gains = [a["predicted_gain_cycles"] for a in report["advice"] if a["kind"] != "fixed-shape"]
    if gains != sorted(gains, reverse=True):
        yield "advice is not ranked"


def main():
    args = sys.argv[1:]
    if not args:
        sys.exit(__doc__)
    with open(SCHEMA, encoding="utf-8") as f:
        schema = json.load(f)
    jsonschema.Draft202012Validator.check_schema(schema)
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in args[1:]:
            report, model = path, None
            if args[0] != "--reports":
                model = path
                binary = os.path.join(folder, "m.bin")
                done = subprocess.run([args[0], path, "-q", "-o", binary], capture_output=True, text=True)
                if done.returncode:
                    print("%s: exit code %d\n%s" % (path, done.returncode, done.stderr.strip()))
                    bad += 1
                    continue
                report = binary[:-4] + ".report.json"
            with open(report, encoding="utf-8") as f:
                found = list(problems_of(json.load(f), schema, model))
            for text in found[:10]:
                print("%s: %s" % (os.path.basename(path), text))
            bad += bool(found)
    print("%d of %d reports are good" % (len(args) - 1 - bad, len(args) - 1))
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
