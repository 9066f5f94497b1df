"""The page of the catalogue that lists every collector; `python -m mindscope.probe.collector_catalogue` writes it."""

from inspect import cleandoc
from pathlib import Path

from . import collectors  # noqa: F401  fills the table of collectors
from .collectors.collector import COLLECTORS, Collector

_HEAD = """# Collectors

Made from the table of collectors; `python -m mindscope.probe.collector_catalogue` writes it. A name is a subject of the
configuration: `subjects: {activation: {every: 10}}`. What is not due is not computed. A name that is a
link has more words below.

| name | moment | statistics | what it records |
|---|---|---|---|
"""


def collectors_page() -> str:
    """Return the page as Markdown: one table, then a section for each collector that has more than a paragraph."""
    known = [COLLECTORS[name] for name in sorted(COLLECTORS)]
    return _HEAD + "".join(map(_row, known)) + "".join(map(_section, known))


def _row(collector: Collector) -> str:
    summary, more = _paragraphs(collector)
    name = f"[{collector.name}](#{collector.name.replace('/', '')})" if more else collector.name
    return f"| {name} | {collector.at} | {', '.join(collector.columns)} | {' '.join(summary.split())} |\n"


def _section(collector: Collector) -> str:
    _, more = _paragraphs(collector)
    return f"\n## {collector.name}\n\n{more}\n" if more else ""


def _paragraphs(collector: Collector) -> tuple[str, str]:
    """Return the first paragraph of the docstring, and the others."""
    summary, _, more = cleandoc(collector.doc).partition("\n\n")
    return summary, more


if __name__ == "__main__":
    page = Path(__file__).parents[1] / "docs" / "catalogue" / "collectors.md"
    page.write_text(collectors_page(), encoding="utf-8")
