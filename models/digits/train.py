#!/usr/bin/python3
"""Trains the bundled model: a small CNN that reads 8x8 pictures of handwritten digits, with numpy alone.

    train.py [OUT_DIR]            needs numpy, onnx and scikit-learn (for its digits data set)

Writes digits.onnx, test_images.npy / test_labels.npy (held out: never seen in training), calibration.npy (from the
training part), sample.npy and sample.png (one held-out picture), README.md's figures on stdout. Fixed seeds.
"""
import os
import struct
import sys
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

EPOCHS, BATCH, RATE = 40, 32, 2e-3


def patches(x, k=3):
    """[N,C,H,W] -> [N,H*W,C*k*k], zero padding."""
    n, c, h, w = x.shape
    p = np.pad(x, ((0, 0), (0, 0), (k // 2, k // 2), (k // 2, k // 2)))
    v = np.lib.stride_tricks.sliding_window_view(p, (k, k), axis=(2, 3))
    return v.transpose(0, 2, 3, 1, 4, 5).reshape(n, h * w, c * k * k)


def unpatch(d, shape, k=3):
    n, c, h, w = shape
    d = d.reshape(n, h, w, c, k, k)
    out = np.zeros((n, c, h + k - 1, w + k - 1), d.dtype)
    for i in range(k):
        for j in range(k):
            out[:, :, i:i + h, j:j + w] += d[..., i, j].transpose(0, 3, 1, 2)
    return out[:, :, k // 2:k // 2 + h, k // 2:k // 2 + w]


class Conv:
    def __init__(self, rng, cin, cout):
        self.w = (rng.standard_normal((cout, cin, 3, 3)) * np.sqrt(2 / (cin * 9))).astype(np.float32)
        self.b = np.zeros(cout, np.float32)

    def forward(self, x):
        self.shape, self.cols = x.shape, patches(x)
        y = self.cols @ self.w.reshape(len(self.b), -1).T + self.b
        self.mask = y > 0
        n, _, h, w = x.shape
        return np.maximum(y, 0).transpose(0, 2, 1).reshape(n, len(self.b), h, w)

    def backward(self, d):
        n, c, h, w = d.shape
        d = d.reshape(n, c, h * w).transpose(0, 2, 1) * self.mask
        self.gw = np.einsum("npo,npk->ok", d, self.cols).reshape(self.w.shape)
        self.gb = d.sum((0, 1))
        return unpatch(d @ self.w.reshape(c, -1), self.shape)


class Dense:
    def __init__(self, rng, cin, cout):
        self.w = (rng.standard_normal((cin, cout)) * np.sqrt(1 / cin)).astype(np.float32)
        self.b = np.zeros(cout, np.float32)

    def forward(self, x):
        self.x = x
        return x @ self.w + self.b

    def backward(self, d):
        self.gw, self.gb = self.x.T @ d, d.sum(0)
        return d @ self.w.T


def pool(x):
    n, c, h, w = x.shape
    v = x.reshape(n, c, h // 2, 2, w // 2, 2)
    y = v.max((3, 5))
    return y, (v == y[:, :, :, None, :, None])


def unpool(d, mask):
    n, c, h, _, w, _ = mask.shape
    share = mask / mask.sum((3, 5), keepdims=True)
    return (share * d[:, :, :, None, :, None]).reshape(n, c, h * 2, w * 2).astype(np.float32)


class Net:
    def __init__(self, rng):
        self.c1, self.c2, self.c3 = Conv(rng, 1, 16), Conv(rng, 16, 16), Conv(rng, 16, 32)
        self.fc = Dense(rng, 32 * 2 * 2, 10)
        self.layers = [self.c1, self.c2, self.c3, self.fc]

    def forward(self, x):
        x, self.m1 = pool(self.c2.forward(self.c1.forward(x)))
        x, self.m2 = pool(self.c3.forward(x))
        self.flat = x.shape
        return self.fc.forward(x.reshape(len(x), -1))

    def backward(self, d):
        d = unpool(self.fc.backward(d).reshape(self.flat), self.m2)
        d = unpool(self.c3.backward(d), self.m1)
        self.c1.backward(self.c2.backward(d))


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def shifted(rng, x):
    """Each picture moved by up to one pixel."""
    out = np.zeros_like(x)
    for i, (dy, dx) in enumerate(rng.integers(-1, 2, (len(x), 2))):
        out[i] = np.roll(x[i], (dy, dx), (1, 2))
    return out


def train(x, y, rng):
    net = Net(rng)
    params = [(l, n) for l in net.layers for n in "wb"]
    m = [np.zeros_like(getattr(l, n)) for l, n in params]
    v = [np.zeros_like(getattr(l, n)) for l, n in params]
    t = 0
    for epoch in range(EPOCHS):
        rate = RATE * (0.5 + 0.5 * np.cos(np.pi * epoch / EPOCHS))
        order = rng.permutation(len(x))
        for s in range(0, len(x) - BATCH + 1, BATCH):
            k = order[s:s + BATCH]
            p = softmax(net.forward(shifted(rng, x[k])))
            p[np.arange(BATCH), y[k]] -= 1
            net.backward(p / BATCH)
            t += 1
            for i, (l, n) in enumerate(params):  # Adam
                g = getattr(l, "g" + n)
                m[i] = 0.9 * m[i] + 0.1 * g
                v[i] = 0.999 * v[i] + 0.001 * g * g
                setattr(l, n, (getattr(l, n) - rate * (m[i] / (1 - 0.9 ** t)) / (np.sqrt(v[i] / (1 - 0.999 ** t)) + 1e-8)).astype(np.float32))
    return net


def export(net, path):
    init, nodes = [], []

    def constant(name, value):
        init.append(numpy_helper.from_array(np.ascontiguousarray(value, np.float32), name))
        return name

    def conv(k, layer, x):
        nodes.append(helper.make_node("Conv", [x, constant(f"conv{k}.weight", layer.w), constant(f"conv{k}.bias", layer.b)], [f"conv{k}_out"],
                                      name=f"conv{k}", kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"conv{k}_out"], [f"relu{k}_out"], name=f"relu{k}"))
        return f"relu{k}_out"

    def maxpool(k, x):
        nodes.append(helper.make_node("MaxPool", [x], [f"pool{k}_out"], name=f"pool{k}", kernel_shape=[2, 2], strides=[2, 2]))
        return f"pool{k}_out"

    x = maxpool(1, conv(2, net.c2, conv(1, net.c1, "image")))
    x = maxpool(2, conv(3, net.c3, x))
    nodes.append(helper.make_node("Flatten", [x], ["flat"], name="flatten"))
    nodes.append(helper.make_node("Gemm", ["flat", constant("fc.weight", net.fc.w), constant("fc.bias", net.fc.b)], ["logits"], name="fc"))
    nodes.append(helper.make_node("Softmax", ["logits"], ["probabilities"], name="softmax", axis=-1))
    graph = helper.make_graph(nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
                              [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])], init,
                              doc_string="Reads an 8x8 picture of a handwritten digit; pixels 0 (paper) to 1 (ink).")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="models/digits/train.py")
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, path)


def png(path, gray):
    h, w = gray.shape
    raw = b"".join(b"\0" + row.astype(np.uint8).tobytes() for row in gray)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 0, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    data = load_digits()
    x = (data.images / 16).astype(np.float32)[:, None]
    y = data.target
    rng = np.random.default_rng(7)
    order = rng.permutation(len(x))
    test, learn = order[:360], order[360:]
    net = train(x[learn], y[learn], rng)
    export(net, os.path.join(out, "digits.onnx"))
    p = net.forward(x[test]).argmax(1)
    np.save(os.path.join(out, "test_images.npy"), x[test])
    np.save(os.path.join(out, "test_labels.npy"), y[test].astype(np.int64))
    np.save(os.path.join(out, "calibration.npy"), x[learn[:64]])
    sample = next(i for i in test if y[i] == 7)
    np.save(os.path.join(out, "sample.npy"), x[sample:sample + 1])
    png(os.path.join(out, "sample.png"), np.round(x[sample, 0] * 255))
    print(f"{len(learn)} pictures learnt, {len(test)} held out: {(p == y[test]).sum()} of {len(test)} right ({100 * (p == y[test]).mean():.2f} %); sample is a {y[sample]}")


main()
