"""The page of the catalogue that lists every collector; `python -m mindscope.probe.collector_catalogue` writes it."""

from inspect import cleandoc
from pathlib import Path

from . import collectors  # noqa: F401  fills the table of collectors
from .collectors.collector import COLLECTORS, Collector
from .kernels import more

_HEAD = """# Collectors

Made from the table of collectors; `python -m mindscope.probe.collector_catalogue` writes it. A name is a subject of the
configuration: `subjects: {activation: {every: 10}}`. What is not due is not computed. A name that is a
link has more words below.

| name | moment | statistics | what it records |
|---|---|---|---|
"""


_STATISTICS = """
## Statistics of a tensor

The ten statistics of every tensor:

    l2_norm     Euclidean norm of the finite elements
    mean        mean of the finite elements
    std         their standard deviation, with their number as divisor
    min, max    smallest and largest finite element
    zeros       number of elements that are zero
    nans        number of elements that are NaN; pos_infs, neg_infs: that are +infinity, -infinity
    size        number of all elements

`statistics: [name, ...]` in the configuration adds these:

"""


def collectors_page() -> str:
    """Return the page as Markdown: a table, the statistics, and a section for each collector with more to say."""
    known = [COLLECTORS[name] for name in sorted(COLLECTORS)]
    return _HEAD + "".join(map(_row, known)) + _STATISTICS + requested_statistics() + "".join(map(_section, known))


def requested_statistics() -> str:
    """Return the definitions of the statistics on request: the table in the docstring of `kernels/more.py`."""
    definitions, _, _ = (more.__doc__ or "").partition("\n\nReference:")
    return "".join(f"{line}\n" for line in definitions.splitlines() if line.startswith("    "))


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
