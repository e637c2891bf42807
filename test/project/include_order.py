#!/usr/bin/python3
"""Checks the include order of docs/architecture.md over all sources.

    include_order.py [SOURCE_ROOT] [--no-self-check]

A folder may include itself and folders of earlier levels; folders of one level do not see each other;
runtime_stub sees only a part of what is left of it. First a self-check on made-up files: violations must be caught.
"""
import os
import re
import sys
import tempfile

# Levels, left to right; each entry is (name, folder).
LEVELS = [
    [("support", "compiler/support")],
    [("types", "compiler/types")],
    [("target", "compiler/target"), ("memory", "backend/memory"), ("ir", "compiler/ir")],
    [("isa", "backend/isa")],
    [("timing", "backend/timing"), ("container", "backend/container")],
    [("verify", "backend/verify")],
    [("ops", "compiler/ops")],
    [("onnx", "compiler/onnx"), ("interp", "compiler/interp")],
    [("calibration", "compiler/calibration")],
    [("program", "compiler/program")],
    [("pass", "compiler/pass")],
    [("passes", "passes")],
    [("lower", "backend/lower")],
    [("emit", "backend/emit")],
    [("runtime_stub", "runtime_stub")],
    [("report", "backend/report")],
    [("driver", "compiler/driver")],
    [("tools", "tools")],
]
ONLY = {"runtime_stub": {"isa", "timing", "verify", "container", "ops", "interp", "ir", "memory", "target", "types",
                         "support"}}
# Third-party headers that one folder alone may see.
PRIVATE = [
    (re.compile(r"^(onnx/|google/protobuf)"), {"onnx"}, "protobuf is seen by compiler/onnx alone"),
    (re.compile(r"^(webp/|openjpeg-)"), {"ops"}, "libwebp and OpenJPEG are seen by compiler/ops alone"),
    (re.compile(r"^hwy/"), {"interp", "runtime_stub"}, "Highway is seen by interp and runtime_stub alone"),
    (re.compile(r"^CLI/"), {"tools"}, "CLI11 is seen by the tools alone"),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)

LEVEL_OF = {name: k for k, level in enumerate(LEVELS) for name, _ in level}
FOLDERS = sorted(((folder, name) for level in LEVELS for name, folder in level), key=lambda f: -len(f[0]))


def library_of(path):
    for folder, name in FOLDERS:
        if path.startswith(folder + "/"):
            return name
    return None


def allowed(user, used):
    if user == used:
        return True
    if user in ONLY:
        return used in ONLY[user]
    return LEVEL_OF[used] < LEVEL_OF[user]


def check(root):
    errors, count = [], 0
    for top in ("compiler", "passes", "backend", "runtime_stub", "tools"):
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in sorted(files):
                if not name.endswith((".h", ".cc", ".def", ".inc")):
                    continue
                path = os.path.relpath(os.path.join(folder, name), root)
                user = library_of(path)
                if user is None:
                    errors.append(f"{path}: belongs to no folder of the include order")
                    continue
                count += 1
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    text = f.read()
                for m in INCLUDE.finditer(text):
                    at = f"{path}:{text.count(chr(10), 0, m.start(2)) + 1}"
                    quoted, target = m.group(1) == '"', m.group(2)
                    used = library_of(target)
                    if used is not None:
                        if not allowed(user, used):
                            errors.append(f"{at}: {user} includes {target}, but {used} is not left of {user}")
                        continue
                    if target.startswith("test/"):
                        errors.append(f"{at}: the product includes {target}, which is a test's")
                    for pattern, users, why in PRIVATE:
                        if pattern.match(target) and user not in users:
                            errors.append(f"{at}: {user} includes {target}: {why}")
                    if quoted and "/" not in target and not target.endswith((".def", ".inc")):
                        errors.append(f'{at}: "{target}" is not written from the root of the sources')
    return errors, count


def self_check():
    cases = [
        ("compiler/support/a.h", '#include "compiler/types/dtype.h"', "types is not left of support"),
        ("compiler/target/a.h", '#include "compiler/ir/graph.h"', "ir is not left of target"),
        ("backend/timing/a.cc", '#include "backend/verify/v.h"', "verify is not left of timing"),
        ("passes/fuse/a.cc", '#include "backend/lower/conv.h"', "lower is not left of passes"),
        ("runtime_stub/a.cc", '#include "compiler/pass/pass.h"', "pass is not left of runtime_stub"),
        ("compiler/driver/a.cc", "#include <onnx/onnx.pb.h>", "protobuf is seen by compiler/onnx alone"),
        ("compiler/ir/a.cc", '#include "graph.h"', "not written from the root"),
        ("compiler/nowhere/a.cc", "", "belongs to no folder"),
        ("compiler/ops/a.cc", '// text\n#  include  "compiler/interp/x.h"', "a.cc:2: ops includes"),
        ("passes/tile/a.cc", '#include "compiler/pass/pass.h"\n#include "passes/fuse/f.h"\n#include <vector>', None),
        ("backend/report/a.cc", '#include "runtime_stub/machine.h"\n#include "backend/emit/e.h"', None),
        ("runtime_stub/a.cc", '#include "compiler/interp/i.h"\n#include "backend/verify/v.h"', None),
        ("tools/npuc/main.cc", "#include <CLI/CLI.hpp>\n#include \"compiler/driver/d.h\"", None),
    ]
    for path, text, want in cases:
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, os.path.dirname(path)))
            with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                f.write(text)
            errors, _ = check(root)
            good = not errors if want is None else len(errors) == 1 and want in errors[0]
            if not good:
                sys.exit(f"self-check: {path} with {text!r}: want {want!r}, have {errors}")


def main():
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    if "--no-self-check" not in sys.argv:
        self_check()
    root = args[0] if args else os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    errors, count = check(root)
    for e in errors:
        print(e)
    if not count:
        print("no sources found under", root)
    print(f"include order: {count} files, {len(errors)} errors")
    sys.exit(1 if errors or not count else 0)


main()
