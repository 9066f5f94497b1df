"""Layer by step maps: a row for every site, a column for some steps, one map or several over a shared axis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ...insight import deviation
from ...storage import Matrix, display_site
from ..address import Span
from ..formatting import number, short_site
from ..theme import ColorScale, Palette
from .curve_figure import whole_range
from .drawing import Part, drawing

View = Literal["deviation", "raw"]

#: Colours are full at this many robust standard deviations; the number under the pointer is not cut.
_FULL_COLOR: Final = 12.0
#: Below this many cells a hover shows the cell's range as well; above it the page would grow past 2 MB.
_DETAILED_CELLS: Final = 60_000
_ROW_HEIGHT: Final = 15
_LABEL_PIXELS: Final = 11


@dataclass(frozen=True, slots=True, eq=False)
class HeatmapData:
    """What the heat map shows.

    Args:
        z: `(sites, columns)` float32, what gives the colour; NaN leaves the cell empty.
        span: Smallest and largest value of the colour scale.
        ticks: Values on the colour bar with their labels.
        non_finite: `(sites, columns)`, how many values of the cell were NaN or infinite.
        note: What is to be known of the colours: why some are missing, or that they show something else.
    """

    sites: tuple[str, ...]
    steps: NDArray[np.int64]
    z: NDArray[np.float32]
    span: tuple[float, float]
    ticks: tuple[tuple[float, str], ...]
    diverging: bool
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    non_finite: NDArray[np.int64]
    unit: str
    note: str = ""


def with_elements(matrix: Matrix, counts: Sequence[Matrix]) -> Matrix:
    """Add the non-finite elements of the same tensors to the matrix's `non_finite`.

    Counts whose rows or columns are others than the matrix's are left out: they belong to other tensors.
    """
    total = matrix.non_finite.copy()
    for count in counts:
        if count.sites == matrix.sites and np.array_equal(count.steps, matrix.steps):
            total += np.nan_to_num(count.high, nan=0.0).astype(np.int64)
    return replace(matrix, non_finite=total)


#: Columns before the first one that has a history to deviate from, as `insight.deviation` needs them.
_HISTORY: Final = 5


def heat_of(matrix: Matrix, view: View, compared: Matrix | None = None) -> HeatmapData:
    """Colour a matrix in one of its two views; too few columns for any deviation are coloured by their values.

    Args:
        compared: What deviations are computed from, where that is not the matrix itself.
    """
    if view != "deviation":
        return replace(_raw_heat(matrix), note=_absent(matrix))
    compared = matrix if compared is None else compared
    if matrix.steps.size <= _HISTORY:
        words = f"values: deviations need {_HISTORY} steps of history" if matrix.steps.size else ""
        return replace(_raw_heat(matrix), note=words)
    notes = [
        "" if _is_same(compared, matrix) else "at equal tensor size",
        f"blank: the first {_HISTORY} columns are the history",
        _absent(matrix),
    ]
    return replace(_deviation_heat(matrix, compared), note="; ".join(note for note in notes if note))


def _is_same(one: Matrix, other: Matrix) -> bool:
    return np.array_equal(one.low, other.low, equal_nan=True) and np.array_equal(one.high, other.high, equal_nan=True)


def _absent(matrix: Matrix) -> str:
    """Say how much of a map is blank because nothing was recorded; empty when all was."""
    missing = matrix.present == 0
    if not missing.any() or missing.all():
        return ""
    empty = missing.all(axis=0)
    if empty.any():
        steps = matrix.steps[empty]
        where = f"step {steps[0]:,}" if steps.size == 1 else f"{steps.size:,} columns from step {steps[0]:,} on"
        return f"blank: nothing recorded at {where}"
    rows = int(missing.any(axis=1).sum())
    return f"blank: {rows:,} of {len(matrix.sites):,} rows were not recorded at every step"


def from_step(heat: HeatmapData, first: int) -> HeatmapData:
    """Keep the columns that begin at the step or later: those before it served as their history."""
    keep = heat.steps >= first
    return replace(
        heat,
        steps=heat.steps[keep],
        z=heat.z[:, keep],
        low=heat.low[:, keep],
        high=heat.high[:, keep],
        non_finite=heat.non_finite[:, keep],
    )


def _heat(matrix: Matrix, z: NDArray[np.float64], **how: object) -> HeatmapData:
    ranges = {"low": matrix.low, "high": matrix.high, "non_finite": matrix.non_finite}
    return HeatmapData(matrix.sites, matrix.steps, z.astype(np.float32), **ranges, **how)  # type: ignore[arg-type]  # checked by name below


def _deviation_heat(matrix: Matrix, compared: Matrix) -> HeatmapData:
    marks = (-_FULL_COLOR, -_FULL_COLOR / 2, 0.0, _FULL_COLOR / 2, _FULL_COLOR)
    words = ("≤ -12σ", "-6σ", "usual", "+6σ", "≥ +12σ")
    return _heat(
        matrix,
        deviation(compared),
        span=(-_FULL_COLOR, _FULL_COLOR),
        ticks=tuple(zip(marks, words, strict=True)),
        diverging=True,
        unit="σ from its history",
    )


def _raw_heat(matrix: Matrix) -> HeatmapData:
    with np.errstate(invalid="ignore"):
        values = np.where(np.abs(matrix.low) > np.abs(matrix.high), matrix.low, matrix.high)
    finite = values[np.isfinite(values)]
    if finite.size and finite.min() < 0:
        bound = float(np.abs(finite).max())
        return _heat(matrix, values, span=(-bound, bound), ticks=_ticks(-bound, bound), diverging=True, unit="")
    positive = finite[finite > 0]
    if positive.size and positive.max() > 50 * positive.min():
        return _log_heat(matrix, values, float(positive.min()), float(positive.max()))
    top = float(finite.max()) if finite.size else 1.0
    top = top if top > 0 else 1.0
    return _heat(matrix, values, span=(0.0, top), ticks=_ticks(0.0, top), diverging=False, unit="")


def _log_heat(matrix: Matrix, values: NDArray[np.float64], smallest: float, largest: float) -> HeatmapData:
    smallest = max(smallest, largest * 1e-12)
    with np.errstate(invalid="ignore"):
        z = np.log10(np.maximum(values, smallest))
    span = (float(np.log10(smallest)), float(np.log10(largest)))
    if span[1] - span[0] < 2.5:
        round_values = [digit * 10.0**decade for decade in range(-40, 40) for digit in (1, 2, 5)]
        fine = tuple((float(np.log10(value)), f"{value:g}") for value in round_values if smallest <= value <= largest)
        return _heat(matrix, z, span=span, ticks=fine, diverging=False, unit="log10")
    stride = max(1, int(np.ceil((span[1] - span[0]) / 6)))
    decades = range(int(np.ceil(span[0])), int(np.floor(span[1])) + 1, stride)
    ticks = tuple((float(decade), f"1e{decade}") for decade in decades)
    return _heat(matrix, z, span=span, ticks=ticks, diverging=False, unit="log10")


def _ticks(low: float, high: float) -> tuple[tuple[float, str], ...]:
    return tuple((float(value), number(float(value), 3)) for value in np.linspace(low, high, 5))


def heat_height(rows: int) -> int:
    """Return the pixels that a heat map of so many rows needs, within what fits a screen."""
    return int(np.clip(rows * _ROW_HEIGHT + 64, 220, 720))


def heat_traces(heat: HeatmapData, palette: Palette, *, axis: str = "y", bar: Part | None = None) -> list[Part]:
    """Build the traces of the cells, and over them those that are not finite.

    Args:
        axis: The axis of the sites.
        bar: Position of the colour bar, as Plotly takes it.
    """
    if heat.steps.size <= _AS_POINTS:
        return [*_points(heat, palette, axis, bar), *_non_finite(heat, palette, axis)]
    cells = {
        **_cells(heat, axis),
        "z": heat.z,
        "zmin": heat.span[0],
        "zmax": heat.span[1],
        "colorscale": _scale(palette.diverging if heat.diverging else palette.sequential),
        "colorbar": {**_colorbar(heat, palette), **(bar or {})},
        **_hover(heat),
    }
    return [cells, *_non_finite(heat, palette, axis)]


#: Steps that are drawn as points: cells would be as wide as the map.
_AS_POINTS: Final = 3


def _points(heat: HeatmapData, palette: Palette, axis: str, bar: Part | None) -> list[Part]:
    """Draw each value of very few steps as a point of its colour."""
    rows, columns = np.nonzero(np.isfinite(heat.z))
    sites = [display_site(site) for site in heat.sites]
    marker = {
        "size": 11,
        "symbol": "square",
        "color": heat.z[rows, columns],
        "cmin": heat.span[0],
        "cmax": heat.span[1],
        "colorscale": _scale(palette.diverging if heat.diverging else palette.sequential),
        "colorbar": {**_colorbar(heat, palette), **(bar or {})},
        "line": {"width": 1, "color": palette.muted},
    }
    values = "%{customdata[0]:.5g} to %{customdata[1]:.5g}"
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": heat.steps[columns],
            "y": [sites[row] for row in rows],
            "yaxis": axis,
            "marker": marker,
            "customdata": np.stack([heat.low[rows, columns], heat.high[rows, columns]], axis=-1),
            "hovertemplate": f"<b>%{{y}}</b><br>step %{{x}}<br>{values}<extra></extra>",
            "cliponaxis": False,
        }
    ]


def _cells(heat: HeatmapData, axis: str) -> Part:
    """Return the properties that both maps over the same sites and steps share."""
    sites = [display_site(site) for site in heat.sites]
    return {"type": "heatmap", "x": heat.steps.tolist(), "y": sites, "yaxis": axis, "hoverongaps": False}


def site_axis(sites: Sequence[str], pixels: int) -> dict[str, object]:
    """Build a value axis with a row for every site, the first at the top, and as many labels as can be read."""
    names = [display_site(site) for site in sites]
    shown = names[:: max(1, -(-len(names) // max(1, pixels // _LABEL_PIXELS)))]
    return {
        "autorange": "reversed",
        "showgrid": False,
        "automargin": True,
        "type": "category",
        "categoryorder": "array",
        "categoryarray": names,
        "tickmode": "array",
        "tickvals": shown,
        "ticktext": [short_site(name) for name in shown],
        "tickfont": {"size": 10},
    }


def _scale(colors: ColorScale) -> list[list[float | str]]:
    return [[position, color] for position, color in colors]


def _colorbar(heat: HeatmapData, palette: Palette) -> dict[str, object]:
    return {
        "thickness": 8,
        "outlinewidth": 0,
        "len": 1.0,
        "tickvals": [value for value, _ in heat.ticks],
        "ticktext": [text for _, text in heat.ticks],
        "tickfont": {"size": 10, "color": palette.muted},
    }


def _hover(heat: HeatmapData) -> dict[str, object]:
    label = "<b>%{y}</b><br>from step %{x}"
    shade = f"<br>%{{z:.3g}} {heat.unit}" if heat.unit else ""
    if heat.z.size > _DETAILED_CELLS:
        return {"hovertemplate": f"{label}{shade or '<br>%{z:.4g}'}<extra></extra>"}
    ranges = np.stack([heat.low, heat.high], axis=-1).astype(np.float32)
    values = "<br>%{customdata[0]:.5g} to %{customdata[1]:.5g}"
    return {"customdata": ranges, "hovertemplate": f"{label}{values}{shade}<extra></extra>"}


def _non_finite(heat: HeatmapData, palette: Palette, axis: str) -> list[Part]:
    if not heat.non_finite.any():
        return []
    cells = {
        **_cells(heat, axis),
        "z": np.where(heat.non_finite > 0, heat.non_finite, np.nan).astype(np.float32),
        "colorscale": [[0, palette.non_finite], [1, palette.non_finite]],
        "showscale": False,
        "hovertemplate": "<b>%{y}</b><br>from step %{x}<br><b>%{z} NaN or infinite</b><extra></extra>",
    }
    return [cells]


#: Pixels of one map among several: every row can be distinguished, and three maps fit a screen under cards and curve.
_STACKED_ROW_HEIGHT: Final = 5
_LOWEST, _HIGHEST = 130, 300
_TITLE, _FOOT = 24, 44


@dataclass(frozen=True, slots=True, eq=False)
class NamedHeatmap:
    """A map with the metric that it shows.

    Args:
        groups: The modules behind the labels of rows that stand for several sites.
    """

    metric: str
    heat: HeatmapData
    groups: Mapping[str, str] = field(default_factory=dict)


def stack_heights(rows: Sequence[int]) -> list[int]:
    """Return the pixels of each of several maps of so many rows; a single one gets as much as fits a screen."""
    if len(rows) == 1:
        return [heat_height(rows[0]) - _FOOT]
    return [int(np.clip(amount * _STACKED_ROW_HEIGHT, _LOWEST, _HIGHEST)) for amount in rows]


def heat_stack(
    maps: Sequence[NamedHeatmap],
    palette: Palette,
    *,
    selected: tuple[str, int] | None = None,
    span: Span | None = None,
    shown: Span | None = None,
) -> go.Figure:
    """Draw the maps under each other, each under its metric, and frame the selected cell in each map that has it.

    Args:
        selected: Site and step of the cell.
        span: The range of steps that was read.
        shown: First and last step of the axis where all steps are shown; by default those of the maps.
    """
    heights = stack_heights([len(named.heat.sites) for named in maps])
    total = sum(heights) + _TITLE * len(maps)
    traces: list[Part] = []
    axes: dict[str, object] = {}
    titles: list[Part] = []
    frames: list[Part] = []
    top = total
    for index, (named, height) in enumerate(zip(maps, heights, strict=True)):
        number = "" if index == 0 else str(index + 1)
        top -= _TITLE
        domain = [(top - height) / total, top / total]
        cells = _map(named, palette, f"y{number}", domain)
        traces += cells
        axes[f"yaxis{number}"] = {**site_axis(named.heat.sites, height), "domain": domain}
        titles.append(_title(named, palette, domain[1], has_broken=len(cells) > 1))
        frames += _frame(named.heat, selected, palette, f"y{number}")
        top -= height
    steps = {"title": {"text": "step"}, "showgrid": False, "anchor": "y" if len(maps) < 2 else f"y{len(maps)}"}
    return drawing(
        traces,
        palette,
        **axes,
        height=total + _FOOT,
        uirevision=f"{[named.metric for named in maps]} {span}",
        margin={"l": 8, "r": 8, "t": 0, "b": _FOOT},
        annotations=titles,
        shapes=frames,
        meta={"whole": whole_range(shown)},
        xaxis={**steps, "range": list(span)} if span else {**steps, **_whole_steps(maps, shown)},
    )


def _whole_steps(maps: Sequence[NamedHeatmap], shown: Span | None) -> Part:
    """Return the axis of all steps; of very few it has a label for each, and room beside it."""
    steps = np.unique(np.concatenate([named.heat.steps for named in maps])) if maps else np.empty(0)
    if not 0 < steps.size <= _AS_POINTS:
        return {"range": whole_range(shown)} if shown else {}
    shown = shown or (int(steps[0]), int(steps[-1]))
    return {"tickmode": "array", "tickvals": steps.tolist(), "range": whole_range(shown)}


def _map(named: NamedHeatmap, palette: Palette, axis: str, domain: list[float]) -> list[Part]:
    bar = {"y": sum(domain) / 2, "len": domain[1] - domain[0], "lenmode": "fraction"}
    meta = {"metric": named.metric, **({"groups": dict(named.groups)} if named.groups else {})}
    return [{**trace, "meta": meta} for trace in heat_traces(named.heat, palette, axis=axis, bar=bar)]


def _title(named: NamedHeatmap, palette: Palette, y: float, *, has_broken: bool) -> Part:
    """Label the map with its metric, and explain the colour of non-finite values and what is blank where they occur."""
    key = f' \u2002<span style="color:{palette.non_finite}">■</span> NaN or infinite' if has_broken else ""
    note = f' \u2002<span style="font-size:10px">{named.heat.note}</span>' if named.heat.note else ""
    return {
        "text": f"{named.metric}{key}{note}",
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": y,
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"color": palette.muted, "size": 12},
    }


def _frame(heat: HeatmapData, selected: tuple[str, int] | None, palette: Palette, axis: str) -> list[Part]:
    if selected is None or selected[0] not in heat.sites:
        return []
    row, line = heat.sites.index(selected[0]), {"width": 1, "color": palette.text}
    around = {
        "type": "rect",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "yref": axis,
        "y0": row - 0.5,
        "y1": row + 0.5,
    }
    across = {"type": "line", "x0": selected[1], "x1": selected[1], "yref": "paper", "y0": 0, "y1": 1}
    return [{**around, "line": line}, {**across, "line": {**line, "dash": "dot"}}]
