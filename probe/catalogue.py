"""The page of the catalogue that lists every collector; `python -m mindscope.probe.catalogue` writes it anew."""

from inspect import cleandoc
from pathlib import Path

from . import collectors  # noqa: F401  fills the table of collectors
from .collectors.collector import COLLECTORS, Collector

_HEAD = """# Collectors

Made from the table of collectors; `python -m mindscope.probe.catalogue` writes it anew. A name is a subject of the
configuration: `subjects: {activation: {every: 10}}`. What is not due is not computed.

| name | moment | statistics | what it records |
|---|---|---|---|
"""


def collectors_page() -> str:
    """The page as Markdown."""
    return _HEAD + "".join(_row(COLLECTORS[name]) for name in sorted(COLLECTORS))


def _row(collector: Collector) -> str:
    summary = " ".join(cleandoc(collector.doc).partition("\n\n")[0].split())
    return f"| {collector.name} | {collector.at} | {', '.join(collector.columns)} | {summary} |\n"


if __name__ == "__main__":
    page = Path(__file__).parents[1] / "docs" / "catalogue" / "collectors.md"
    page.write_text(collectors_page(), encoding="utf-8")
