"""Write docs/benchmarks.md from the results in docs/benchmarks/*.json: figures in the docs are never typed."""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Lists of cases with the seeds at which they were so, or what was said of them.
_NAMED = ("missed", "misnamed", "misplaced", "false alarms", "stopped")
RECORDED = ROOT / "docs" / "benchmarks"
PAGE = ROOT / "docs" / "benchmarks.md"
INTRODUCTION = """# Benchmarks

Speed and cost of mindscope, measured and compared with other tools. `python benchmarks/render.py` generates this page
from the recorded JSON in [benchmarks/](benchmarks/); do not edit it.

How to read a table: **value** is what was measured, **target** what we aim for, **peers** the same figure of other
tools. A missed target stays on the page, marked **no**. Ratios compare two programs that took turns in one process, so
they hardly depend on the machine; `A/A` rows compare a program with itself and show the noise. Absolute times do depend
on the machine.
"""


def page() -> str:
    """Return the whole page, one section for each recorded benchmark."""
    documents = [json.loads(path.read_text()) for path in sorted(RECORDED.glob("*.json"))]
    return "\n".join([INTRODUCTION, *(_section(document) for document in documents)])


def _section(document: dict[str, Any]) -> str:
    machine = ", ".join(f"{key} {value}" for key, value in document["machine"].items())
    versions = ", ".join(f"{key} {value}" for key, value in document["versions"].items())
    lines = [f"## {document['benchmark']}", "", f"Machine: {machine}.", "", f"Versions: {versions}.", ""]
    lines += ["| case | metric | value | unit | target | met | peers |", "|---|---|---|---|---|---|---|"]
    lines += [_row(result) for result in document["results"]]
    if held_out := document.get("held out"):
        lines += ["", f"Scripts that were held out when thresholds were chosen: {', '.join(held_out)}."]
    if seeds := document.get("seeds"):
        lines += ["", f"Seeds: {', '.join(map(str, seeds))}; intervals are Wilson's at 95 %."]
    lines += [line for title in _NAMED for line in _named(title, document.get(title))]
    for missing in document.get("missing", ()):
        lines += ["", f"Not measured: {missing if isinstance(missing, str) else json.dumps(missing)}."]
    return "\n".join(lines) + "\n"


def _named(title: str, cases: dict[str, list[object]] | None) -> list[str]:
    """Return one line with the cases that a benchmark lists by name."""
    if cases is None:
        return []
    found = [f"{name} ({', '.join(map(str, what))})" for name, what in cases.items()]
    return ["", f"{title.capitalize()}: {', '.join(found) or 'none'}."]


def _row(result: dict[str, Any]) -> str:
    peers = ", ".join(f"{name} {_number(value)}" for name, value in (result.get("peers") or {}).items())
    met = {True: "yes", False: "**no**", None: ""}[result.get("ok")]
    cells = (
        result["case"],
        result["metric"],
        _number(result["value"]) + _interval(result.get("interval")),
        result["unit"],
        _number(result.get("target")),
        met,
        peers,
    )
    return f"| {' | '.join(cells)} |"


def _interval(ends: list[float] | None) -> str:
    return f" [{_number(ends[0])}, {_number(ends[1])}]" if ends else ""


def _number(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} written\n")
