"""The output of commands: tables for people on stdout, one JSON document for programs, remarks on stderr."""

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

#: Columns of the output without a terminal: enough for an id, a name and a sentence.
_PIPE_WIDTH = 200

_BARS = "▁▂▃▄▅▆▇█"


def console() -> "Console":
    """Return a rich console on stdout; into a pipe it is wide and plain, so that nothing is cut."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False, soft_wrap=False)


def remark(text: str) -> None:
    """Print a remark on stderr."""
    print(text, file=sys.stderr, flush=True)


def print_json(document: object) -> None:
    """Print the JSON document of a `--json` command; NaN and infinities become strings."""
    print(json.dumps(as_json(document), indent=2, allow_nan=False, ensure_ascii=False))


def as_json(value: object) -> Any:  # a JSON document is a tree of unlike things
    """Return `value` as lists, dicts and numbers; NaN and infinities become "NaN", "Infinity" and "-Infinity"."""
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: as_json(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def table(title: str, *columns: str, right: Sequence[str] = ()) -> "Table":
    """Return an empty rich table with these columns; those in `right` hold numbers."""
    from rich import box
    from rich.table import Table

    made = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def add_row(to: "Table", *cells: "str | Text") -> None:
    """Add a row; brackets are text, not markup."""
    from rich.text import Text

    to.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in cells))


def age(then: float, now: float | None = None) -> str:
    """Return the time since then in one unit: `3 s`, `12 min`, `5 h`, `2 d`."""
    seconds = max(0.0, (time.time() if now is None else now) - then)
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """Return `values` as at most `width` bars, each the mean of its bucket; a bucket with NaN or Inf is `!`."""
    buckets = _buckets(values, width)
    means = [sum(bucket) / len(bucket) for bucket in buckets]
    finite = [mean for mean in means if math.isfinite(mean)]
    if not finite:
        return "!" * len(means)
    low, span = min(finite), max(finite) - min(finite)
    top = len(_BARS) - 1
    return "".join(
        _BARS[round((mean - low) / span * top) if span > 0 else 0] if math.isfinite(mean) else "!" for mean in means
    )


def _buckets(values: Sequence[float], width: int) -> list[Sequence[float]]:
    count = min(width, len(values))
    edges = [round(index * len(values) / count) for index in range(count + 1)] if count else []
    return [values[low:high] for low, high in pairwise(edges)]
