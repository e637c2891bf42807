#!/usr/bin/env python3
"""What cmake --install gives, and a project that uses it through find_package(npuc).

  install_test.py SOURCE BUILD CMAKE CC CXX [LINK FLAGS that the build needs, such as its sanitizers']
"""
import os
import pathlib
import shutil
import subprocess
import sys

source, build, cmake, cc, cxx = sys.argv[1:6]
link_flags = " ".join(sys.argv[6:])
source, build = pathlib.Path(source), pathlib.Path(build)
work = build / "test_install"
prefix, project, out = work / "prefix", work / "consumer", work / "build"
model = work / "digits.onnx"


def run(*command, code=0, cwd=None):
    r = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True)
    text = r.stdout + r.stderr
    assert (r.returncode == 0) == (code == 0), f"{command}: exit code {r.returncode}\n{text}"
    return text


def check(condition, what):
    assert condition, what


shutil.rmtree(work, ignore_errors=True)
work.mkdir(parents=True)
run(cmake, "--install", build, "--prefix", prefix)

# Everything in its place.
tools = ["npuc", "npu-run", "npu-report", "npu-objdump", "npu-opt", "npu-reduce"]
for tool in tools:
    check(os.access(prefix / "bin" / tool, os.X_OK), f"bin/{tool}")
for yaml in (source / "targets").glob("*.yaml"):
    check((prefix / "share/npuc/targets" / yaml.name).exists(), yaml.name)
check(next(prefix.rglob("libnpu_runtime.a"), None), "libnpu_runtime.a")
for header in ["npu_runtime.h", "npu_runtime.hpp"]:
    check((prefix / "include/npuc" / header).exists(), header)
docs = prefix / "share/doc/npuc"
for document in (source / "docs").rglob("*"):
    if document.is_file():
        check((docs / document.relative_to(source / "docs")).exists(), document)
for name in ["LICENSE", "README.md"]:
    check((docs / name).exists(), name)
package = next((prefix / "lib").rglob("npucConfig.cmake"), None)
check(package, "npucConfig.cmake")

# The programs need nothing of the build tree, the headers compile alone.
presets = run(prefix / "bin/npuc", "--list-targets", cwd=work)
for yaml in (source / "targets").glob("*.yaml"):
    check(yaml.stem in presets, f"preset {yaml.stem}")
(work / "h.c").write_text("#include <npuc/npu_runtime.h>\nint main(void) { return NPU_OK; }\n")
(work / "h.cc").write_text("#include <npuc/npu_runtime.hpp>\nint main() { return NPU_OK; }\n")
run(cc, "-fsyntax-only", "-Wall", "-Werror", "-std=c11", "-I", prefix / "include", work / "h.c")
run(cxx, "-fsyntax-only", "-Wall", "-Werror", "-std=c++17", "-I", prefix / "include", work / "h.cc")

# A consumer.
shutil.copytree(source / "test/install/consumer", project)
shutil.copy(source / "models/digits/digits.onnx", model)


def configure(*flags):
    run(cmake, "-S", project, "-B", out, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DMODEL={model}", f"-DCMAKE_C_COMPILER={cc}",
        f"-DCMAKE_CXX_COMPILER={cxx}", f"-DCMAKE_EXE_LINKER_FLAGS={link_flags}", *flags)


def make(*args, code=0):
    return run(cmake, "--build", out, *args, code=code)


def stamp(name):
    return (out / name).stat().st_mtime_ns


configure()
make()
files = ["digits-net.bin", "digits-net.report.json", "digits-net.report.html", "digits.h"]
for name in files:
    check((out / name).exists(), name)
check(not (out / "out/plain.npu").exists(), "EXCLUDE_FROM_ALL")
data = (out / "digits-net.bin").read_bytes()
for program in ["size_c", "size_cc"]:
    check(run(out / program) == f"{len(data)} {sum(data)}\n", program)

image = (source / "models/digits/sample.npy").read_bytes()[-256:]  # 8x8 floats behind the header
(work / "image.raw").write_bytes(image)
check(run(out / "classify", out / "digits-net.bin", work / "image.raw") == "7\n", "the C API reads a 7")

# Nothing to do, then a newer model, then a newer file that a flag names.
before = [stamp(f) for f in files]
make()
check(before == [stamp(f) for f in files], "a second build did something")
os.utime(model)
make()
check(all(a < b for a, b in zip(before, [stamp(f) for f in files])), "a newer model changed nothing")
make("--target", "plain")
check(not (out / "out/plain.report.json").exists(), "NO_REPORT")
first = stamp("out/plain.npu")
os.utime(project / "ops.yaml")
make("--target", "plain")
check(stamp("out/plain.npu") > first, "a newer --ops file changed nothing")
(out / "digits-net.bin").unlink()
make()
check((out / "digits-net.bin").exists(), "a lost binary came back")

# A gate that is not met fails the build, each time; binary and report are there.
(out / "digits-net.bin").unlink()
configure("-DGATE=ON")
for _ in range(2):
    text = make(code=1)
    check("--max-cycles" in text, text)
    check((out / "digits-net.bin").exists() and (out / "digits-net.report.json").exists(), "files of a failed gate")
configure("-DGATE=OFF")
make()
print("project.install: ok")
