#!/usr/bin/env python3
"""The workflow files of docs/ci: YAML as yamllint wants it, and commands that npuc and npu-report have."""
import pathlib
import re
import shutil
import subprocess
import sys

source = pathlib.Path(sys.argv[1])
files = sorted((source / "docs/ci").glob("*.yml"))
assert len(files) == 2, files
flags = (source / "tools/npuc/main.cc").read_text() + (source / "tools/npu-report/main.cc").read_text()
failed = 0
for path in files:
    text = path.read_text()
    for command in re.findall(r"^\s*(?:- )?(npuc|npu-report) (.*)$", text, re.M):
        if command[0] == "npu-report" and not command[1].startswith("--"):
            name = command[1].split()[0]
            if f'"{name}"' not in flags:
                print(f"{path.name}: npu-report has no command {name}")
                failed += 1
        for flag in re.findall(r"(--[a-z-]+)", command[1]):
            if flag != "--version" and flag not in flags:
                print(f"{path.name}: {command[0]} has no flag {flag}")
                failed += 1
    for action in re.findall(r"uses: (\S+)", text):
        if not re.fullmatch(r"(actions|github)/[a-z/-]+@v\d+", action):
            print(f"{path.name}: {action} is not an action of the usual form")
            failed += 1
if shutil.which("yamllint"):
    rules = "{extends: default, rules: {line-length: {max: 120}, comments: {min-spaces-from-content: 1}}}"
    r = subprocess.run(["yamllint", "-s", "-d", rules, *map(str, files)], capture_output=True, text=True)
    print(r.stdout, end="")
    failed += r.returncode != 0
else:
    print("yamllint is not installed: the files were not linted")
sys.exit(1 if failed else 0)
