"""The node tests of the package onnx through the importer: how many pass, and why the others do not."""

import argparse
import json
import platform
import sys
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from environment import machine

from tests.framework.onnx import node_suite

TARGET = 0.95


def outcomes(names: list[str]) -> dict[str, str]:
    """For each case "" if it passes, else what went wrong in one line."""
    found = {}
    for name in names:
        try:
            node_suite.run(node_suite.cases()[name])
            found[name] = ""
        except Exception as error:  # noqa: BLE001  (a benchmark counts whatever fails)
            found[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return found


def result(case: str, passed: int, total: int, target: float | None) -> dict[str, object]:
    share = passed / total if total else 0.0
    return {
        "case": case,
        "metric": "passed",
        "value": passed,
        "unit": f"of {total}",
        "limit": total,
        "peers": {},
        "target": target,
        "ok": target is None or share >= target,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quick", action="store_true", help="every eighth case")
    options = parser.parse_args()
    names = sorted(node_suite.cases())[:: 8 if options.quick else 1]
    start = time.perf_counter()
    found = outcomes(names)
    elapsed = time.perf_counter() - start
    plain = [name for name in names if node_suite.cases()[name].is_plain]
    failed = {name: node_suite.excused().get(name, reason) for name, reason in found.items() if reason}
    document = {
        "benchmark": "onnx_nodes",
        "machine": machine(),
        "versions": {"python": platform.python_version(), "onnx": version("onnx"), "numpy": version("numpy")},
        "results": [
            result("ai.onnx over plain tensors", sum(not found[name] for name in plain), len(plain), TARGET),
            result("all", sum(not reason for reason in found.values()), len(names), None),
        ],
        "reasons": dict(Counter(failed.values()).most_common()),
        "failed": failed,
        "elapsed_s": elapsed,
    }
    if options.json:
        print(json.dumps(document, indent=2))
        return
    for entry in document["results"]:
        print(f"{entry['case']}: {entry['value']} {entry['unit']} pass")
    for name, reason in failed.items():
        print(f"  {name}: {reason}")


if __name__ == "__main__":
    main()
