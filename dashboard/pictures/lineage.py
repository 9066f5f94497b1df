"""The pictures of the runs of a store side by side: lines through parameters and a result, and what it depends on."""

from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go

from ...insight.lineage import Provenance, importance
from ..data.lineages import RESULT, correlations, is_numeric, results_of
from ..figures.dependence import correlation_figure, importance_figure
from ..figures.parallel import bundles_of, parallel_figure, scale_of
from ..theme import Palette

#: Bars and columns that a screen has room for; our choice.
_BARS: Final = 12
_RESULTS: Final = 6


def parallel_of(
    rows: Sequence[Provenance], fields: Sequence[str], result: str | None, palette: Palette, *, chosen: str = ""
) -> go.Figure | None:
    """One line for every run through its fields and the result; None where two runs or two axes are missing.

    Args:
        chosen: Id of the run that is drawn on top.
    """
    axes = [*fields, *([f"{RESULT}{result}"] if result else [])]
    if len(rows) < 2 or len(axes) < 2:
        return None
    scales = [scale_of(name, [row.fields.get(name) for row in rows]) for name in axes]
    numbers = [row.number(axes[-1]) if result else float("nan") for row in rows]
    names = [str(row.fields.get("name") or row.run) for row in rows]
    at = next((number for number, row in enumerate(rows) if row.run == chosen), None)
    return parallel_figure(scales, bundles_of(numbers), names, palette, chosen=at)


def importance_of(rows: Sequence[Provenance], result: str | None, palette: Palette) -> go.Figure | None:
    """What the result depends on; None where too few runs have it, or differ."""
    found = importance(rows, result)[:_BARS] if result else ()
    return importance_figure(found, palette) if found else None


def correlation_of(
    rows: Sequence[Provenance], fields: Sequence[str], result: str | None, palette: Palette
) -> go.Figure | None:
    """Rank correlations of the fields that are numbers, with this result first; None where none is known."""
    numeric = [name for name in fields if is_numeric(rows, name)]
    known = list(dict.fromkeys([*([result] if result else []), *results_of(rows)]))[:_RESULTS]
    values = correlations(rows, numeric, [f"{RESULT}{name}" for name in known])
    told = (values == values).any(axis=1)
    names = [name for name, is_told in zip(numeric, told, strict=True) if is_told]
    return correlation_figure(names, known, values[told], palette) if names else None
