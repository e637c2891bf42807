#!/usr/bin/python3
"""INT8 accuracy of real models, the whole way through the command line: calibrate on random crops of pictures (windows of speech), compile with --calib, run inputs
that are not in the set, and hold each output against the model's own float run (--precision fp32).

    int8_accuracy.py --bin BUILD/bin --shared ../shared [--only REGEX] [--work DIR] [--keep] [-- extra npuc flags]

A row a model and output: the least cosine over the inputs; for outputs of one or two elements the greatest error relative to the float value. Needs numpy, onnx.
"""
import argparse, glob, json, os, re, struct, subprocess, sys, wave
import numpy as np
import onnx
from onnx import helper, numpy_helper, TensorProto

# name: (input, kind, dims, how pixels become values)
NORM = {
    "unit": lambda x: x / 255, "raw": lambda x: x, "bgr": lambda x: x[..., ::-1], "centre": lambda x: (x - 127) / 128, "signed": lambda x: x / 127.5 - 1,
    "retina": lambda x: x[..., ::-1] - np.array([104, 117, 123.0]),
    "nanodet": lambda x: (x[..., ::-1] - np.array([103.53, 116.28, 123.675])) / np.array([57.375, 57.12, 58.395]),
}
MODELS = {
    "ultraface-rfb320": ("nchw", (240, 320), "centre"), "yunet-n-dynamic": ("nchw", (256, 320), "bgr"), "yolox-nano": ("nchw", (416, 416), "bgr"),
    "selfie-seg-landscape": ("nhwc", (144, 256), "unit"), "superres-dyn-op15": ("luma", (224, 224), "unit"), "ppocrv2-cls": ("nchw", (48, 192), "signed"),
    "blazeface-front": ("nhwc", (128, 128), "signed"), "hand-landmark": ("nchw", (224, 224), "unit"), "oww-embedding": ("speech", (76, 32), None),
    "retinaface-mnet025": ("nchw", (640, 640), "retina"), "nanodet-m-320": ("nchw", (320, 320), "nanodet"), "mnist-cntk-op8": ("digits", (28, 28), "raw"),
}


def run(*cmd):
    p = subprocess.run([str(c) for c in cmd], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode not in (0, 3):
        raise RuntimeError(" ".join(map(str, cmd)) + "\n" + p.stderr.decode()[:2000])
    return p.stdout.decode()


def image_size(path):
    b = open(path, "rb").read()
    if b[:8] == b"\x89PNG\r\n\x1a\n":
        w, h = struct.unpack(">II", b[16:24])
        return h, w
    at = 2
    while True:
        marker, length = b[at + 1], struct.unpack(">H", b[at + 2:at + 4])[0]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return struct.unpack(">HH", b[at + 5:at + 9])
        at += 2 + length


def pixels(a, path):
    """An image as [h,w,3] floats 0..255: npu-run's own decoder, through a model that does nothing."""
    cache = os.path.join(a.work, os.path.basename(path) + ".npy")
    if not os.path.exists(cache):
        h, w = image_size(path)
        stem = os.path.join(a.work, "identity")
        info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3, h, w]) for n in "xy"]
        onnx.save(helper.make_model(helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", info[:1], info[1:]),
                                    opset_imports=[helper.make_opsetid("", 17)], ir_version=8), stem + ".onnx")
        open(stem + ".yaml", "w").write("scale: 1\n")
        run(a.bin + "/npuc", stem + ".onnx", "-o", stem + ".bin", "--precision", "fp32", "-q", "--no-report")
        run(a.bin + "/npu-run", stem + ".bin", "--input", path, "--preprocess", stem + ".yaml", "--output-dir", stem, "-q")
        np.save(cache, np.load(stem + "/y.npy")[0].transpose(1, 2, 0))
    return np.load(cache)


def resize(x, size):
    for axis in (0, 1):
        n, m = x.shape[axis], size[axis]
        at = np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)
        lo = np.floor(at).astype(int)
        f = (at - lo).reshape([-1 if d == axis else 1 for d in range(x.ndim)])
        x = np.take(x, lo, axis) * (1 - f) + np.take(x, np.minimum(lo + 1, n - 1), axis) * f
    return x


def picture(r, images, size):
    x = images[r.randint(len(images))]
    h, w = x.shape[:2]
    k = min(h / size[0], w / size[1]) * r.uniform(0.4, 1)
    ch, cw = max(8, int(size[0] * k)), max(8, int(size[1] * k))
    y0, x0 = r.randint(h - ch + 1), r.randint(w - cw + 1)
    x = resize(x[y0:y0 + ch, x0:x0 + cw], size)
    return np.clip((x - 128) * r.uniform(0.7, 1.1) + 128 + r.uniform(-25, 25), 0, 255)


def speech(r, size, wav):
    """76 frames of 32 log mel bands as openWakeWord scales them: dB / 10 + 2."""
    at = r.randint(len(wav) - 76 * 160 - 512)
    frames = np.stack([wav[at + 160 * i:at + 160 * i + 512] for i in range(size[0])]) * np.hanning(512)
    power = np.abs(np.fft.rfft(frames)) ** 2
    mel = lambda f: 2595 * np.log10(1 + f / 700)
    edges = 700 * (10 ** (np.linspace(mel(60), mel(3800), 34) / 2595) - 1)
    f = np.fft.rfftfreq(512, 1 / 16000)
    bank = np.stack([np.clip(np.minimum((f - lo) / (mid - lo), (hi - f) / (hi - mid)), 0, None) for lo, mid, hi in zip(edges, edges[1:], edges[2:])])
    db = 10 * np.log10(np.maximum(power @ bank.T, 1e-10))
    return np.maximum(db, db.max() - 80) / 10 + 2


def digit(r, sheet):
    y, x = r.randint(50), r.randint(100)
    d = sheet[20 * y:20 * y + 20, 20 * x:20 * x + 20, 0]
    out = np.zeros((28, 28))
    dy, dx = r.randint(2, 7, 2)
    out[dy:dy + 20, dx:dx + 20] = d
    return out


def samples(a, name, seed, n):
    kind, size, norm = MODELS[name]
    r = np.random.RandomState(seed)
    out = []
    if kind == "speech":
        w = wave.open(a.shared + "/inputs/speech_silero_test_16k.wav")
        wav = np.frombuffer(w.readframes(w.getnframes()), dtype=np.int16) / 32768
        return np.stack([speech(r, size, wav)[None, :, :, None] for _ in range(n)]).astype(np.float32)
    if kind == "digits":
        sheet = pixels(a, a.shared + "/inputs/digits.png")
        return np.stack([digit(r, sheet)[None, None] for _ in range(n)]).astype(np.float32)
    if name == "ppocrv2-cls":
        files = ["page.png", "text.png", "imageTextN.png"]
    else:
        files = [os.path.basename(f) for f in sorted(glob.glob(a.shared + "/inputs/*.png") + glob.glob(a.shared + "/inputs/*.jpg"))
                 if os.path.basename(f) not in ("digits.png",)]
    images = [pixels(a, a.shared + "/inputs/" + f) for f in files]
    for _ in range(n):
        x = NORM[norm](picture(r, images, size))
        if kind == "luma":
            x = x @ np.array([0.299, 0.587, 0.114])
            out.append(x[None, None])
        else:
            out.append((x if kind == "nhwc" else x.transpose(2, 0, 1))[None])
    return np.stack(out).astype(np.float32)


def compare(got, want):
    got, want = got.astype(np.float64).ravel(), want.astype(np.float64).ravel()
    if want.size <= 2:
        return "error", float(np.max(np.abs(got - want) / np.maximum(np.abs(want), 1e-9)))
    d = np.linalg.norm(got) * np.linalg.norm(want)
    return "cosine", float(got @ want / d) if d else float(np.array_equal(got, want))


def one(a, name, extra):
    path = f"{a.shared}/models/{name}.onnx"
    t = onnx.TensorProto()
    t.ParseFromString(open(f"{a.shared}/models/{name}/test_data_set_0/input_0.pb", "rb").read())
    stored = numpy_helper.to_array(t)
    model = onnx.load(path)
    inits = {i.name for i in model.graph.initializer}
    graph_input = [i.name for i in model.graph.input if i.name not in inits][0]
    outputs = [o.name for o in model.graph.output]
    stem = os.path.join(a.work, name)
    np.save(stem + ".samples.npy", samples(a, name, 1, a.samples))
    test = list(samples(a, name, 2, a.tests))
    if name != "oww-embedding":  # its stored input is noise
        test.append(stored)
    shape = ["--input-shape", graph_input + "=" + "x".join(map(str, stored.shape))]
    if not os.path.exists(stem + ".f32.bin"):
        run(a.bin + "/npuc", path, "-o", stem + ".f32.bin", "--precision", "fp32", "-q", "--no-report", *shape)
    run(a.bin + "/npuc", path, "-o", stem + ".f16.bin", "-q", *shape)
    run(a.bin + "/npuc", path, "-o", stem + ".bin", "-q", "--calib", stem + ".samples.npy", *shape, *extra)
    report, f16 = (json.load(open(stem + f"{s}.report.json")) for s in ("", ".f16"))
    rows = {}
    for k, x in enumerate(test):
        np.save(stem + ".in.npy", x)
        values = {}
        for kind in ("f32", "int8"):
            out = f"{stem}.{kind}.out{k}"
            if kind == "int8" or not os.path.exists(out):
                run(a.bin + "/npu-run", stem + (".f32" if kind == "f32" else "") + ".bin", "--input", stem + ".in.npy", "--output-dir", out, "-q")
            values[kind] = {os.path.basename(f): np.load(f) for f in glob.glob(out + "/*.npy")}
        for o, want in values["f32"].items():
            measure, v = compare(values["int8"][o], want)
            worst = rows.get(o, (measure, v, k))
            rows[o] = min(worst, (measure, v, k), key=lambda w: w[1] if measure == "cosine" else -w[1])
    q = report["quantization"]
    good = True
    for o, (measure, v, k) in sorted(rows.items()):
        ok = v >= 0.99 if measure == "cosine" else v <= 0.05
        good &= ok
        print(f"  {'ok  ' if ok else 'MISS'} {measure} {v:.5f} (input {k}) {o}")
    c, cf = report["coverage"], f16["coverage"]
    print(f"{'ok  ' if good else 'MISS'} {name}: int8 {q['nodes_int8']} f16 {q['nodes_f16']} host float {q['nodes_host_float']}; coverage {c['node_percent']:.1f} (f16 {cf['node_percent']:.1f}), "
          f"cycles {report['performance']['cycles']} (f16 {f16['performance']['cycles']})", flush=True)
    return good


def main():
    argv = sys.argv[1:]
    extra = argv[argv.index("--") + 1:] if "--" in argv else []
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", required=True)
    p.add_argument("--shared", required=True)
    p.add_argument("--only", default="")
    p.add_argument("--work", default="/tmp/int8_accuracy")
    p.add_argument("--samples", type=int, default=64)
    p.add_argument("--tests", type=int, default=5)
    a = p.parse_args(argv[:argv.index("--")] if "--" in argv else argv)
    os.makedirs(a.work, exist_ok=True)
    bad = []
    for name in MODELS:
        if re.search(a.only, name):
            try:
                if not one(a, name, extra):
                    bad.append(name)
            except RuntimeError as e:
                print(f"FAIL {name}: {e}", flush=True)
                bad.append(name)
    print("missing:", bad or "none")
    return 1 if bad else 0


sys.exit(main())
