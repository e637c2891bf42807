#!/usr/bin/python3
"""How long a chain of small operators takes to compile: 25 000, 50 000 and 100 000 nodes, on the host (fp32) and lowered (auto).

    chain.py --bin BUILD/bin [--nodes 25000,50000,100000]

Prints processor seconds, microseconds a node and peak memory; the time a node must not grow with the chain.
"""
import argparse, os, resource, subprocess, sys, tempfile, time
import onnx
from onnx import helper


def chain(nodes):
    ops = ["Relu", "Add", "Sigmoid", "Mul", "Neg", "Abs"]
    made, x = [], "x"
    for i in range(nodes):
        op = ops[i % len(ops)]
        made.append(helper.make_node(op, [x, "c"] if op in ("Add", "Mul") else [x], [f"t{i}"], name=f"n{i}"))
        x = f"t{i}"
    value = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 16])
    graph = helper.make_graph(made, "chain", [value("x")], [value(x)], [helper.make_tensor("c", onnx.TensorProto.FLOAT, [1, 16], [0.5] * 16)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bin", required=True)
    p.add_argument("--nodes", default="25000,50000,100000")
    a = p.parse_args()
    print(f"{'nodes':>7s} {'precision':>9s} {'cpu s':>7s} {'wall s':>7s} {'us/node':>8s} {'MiB':>6s}")
    with tempfile.TemporaryDirectory() as tmp:
        for n in map(int, a.nodes.split(",")):
            path = os.path.join(tmp, "chain.onnx")
            onnx.save(chain(n), path)
            for precision in ("fp32", "auto"):
                before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
                subprocess.run([os.path.join(a.bin, "npuc"), path, "-o", os.path.join(tmp, "m.bin"), "-q", "--precision", precision], check=True)
                wall, after = time.time() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
                cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                print(f"{n:7d} {precision:>9s} {cpu:7.2f} {wall:7.2f} {cpu / n * 1e6:8.1f} {after.ru_maxrss / 1024:6.0f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
