"""The picture of a job: a cell for every rank, or for some of them, in blocks of hosts or along an axis of the mesh."""

from collections.abc import Callable, Mapping, Sequence
from os.path import commonprefix
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ....insight.hangs.rank_states import STATES
from ...figures.drawing import Part, drawing
from ...queries.rank_cells import AGREES, DIFFERS, STANDS_OUT, Colouring, JobRanks, hover_words
from ...queries.rank_grid import RankGrid
from ...theme import Palette

__all__ = ["topology_figure"]

Cells = NDArray[np.float64]
#: Colours are full where a rank works 1.5 times as long as the median, or two thirds of it. Our choice: a rank that
#: holds up the others works 30 % longer, which can be told from the usual at once.
_FULL: Final = float(np.log2(1.5))
#: Where the scale has the colour of an empty cell rather than the surface's: a rank is drawn also where it is usual.
_MIDDLE: Final = 0.5
#: Pixels of a line by how many there are, and of what stands around the cells.
_HEIGHTS: Final = ((4, 34), (8, 26), (16, 20), (64, 13))
_AROUND: Final = 96
#: Columns up to which cells have gaps and numbers that can be read on a phone, and names of columns.
_WIDE, _NAMES = 16, 8
_LONGEST: Final = 18


def topology_figure(job: JobRanks, grid: RankGrid, colouring: Colouring, palette: Palette) -> go.Figure:
    """Draw the ranks of a job; the culprits are outlined."""
    lines, columns = grid.shape
    number_of, legend = _COLOURINGS[colouring](job, palette)
    z = np.full(lines * columns, np.nan)
    np.fmax.at(z, grid.cells, number_of)
    hover, names = np.full(lines * columns, "", dtype=object), np.full(lines * columns, "", dtype=object)
    for cell, words in hover_words(job, grid).items():
        hover[cell] = words
    is_single = len(np.unique(grid.cells)) == len(grid.cells)
    if columns <= _WIDE and is_single:
        names[grid.cells] = [f"{rank}" for rank in grid.ranks.tolist()]
    known = np.zeros(lines * columns)
    known[grid.cells] = 1.0
    pixels = next((height for most, height in _HEIGHTS if lines <= most), _HEIGHTS[-1][1])
    gap = 2 if columns <= _WIDE else 1
    shape = {"x": list(range(columns)), "y": list(range(lines)), "xgap": gap, "ygap": gap, "type": "heatmap"}
    behind = {
        **shape,
        "z": np.where(known > 0, known, np.nan).reshape(lines, columns).astype(np.float32),
        "colorscale": [[0, palette.grid], [1, palette.grid]],
        "showscale": False,
        "hoverinfo": "skip",
    }
    cells = {
        **shape,
        "z": z.reshape(lines, columns).astype(np.float32),
        "text": names.reshape(lines, columns).tolist(),
        "texttemplate": "%{text}",
        "textfont": {"size": 10},
        "customdata": hover.reshape(lines, columns).tolist(),
        "hoverongaps": False,
        "hovertemplate": "%{customdata}<extra></extra>",
        **legend,
    }
    return drawing(
        [behind, cells],
        palette,
        height=lines * pixels + _AROUND,
        uirevision=f"{grid.x_title} {grid.y_title} {grid.shape}",
        margin={"l": 8, "r": 24, "t": 36, "b": 40},
        shapes=[*_borders(grid, palette), *_outlines(job.culprits, grid, palette)],
        xaxis=_axis(grid.x_names, grid.x_title, columns),
        yaxis={**_axis(grid.y_names, grid.y_title, lines), "range": [lines - 0.5, -0.5]},
    )


def _axis(names: Sequence[str], title: str, count: int) -> dict[str, object]:
    stride = max(1, -(-sum(map(bool, names)) // _NAMES)) if count > _WIDE else 1
    every = [at for at, name in enumerate(names) if name]
    shown = dict(zip(every, _short([names[at] for at in every]), strict=True))
    named = every[::stride]
    return {
        "title": {"text": title},
        "range": [-0.5, count - 0.5],
        "showgrid": False,
        "automargin": True,
        "tickmode": "array",
        "tickvals": named,
        "ticktext": [shown[at] for at in named],
        "tickfont": {"size": 10},
    }


def _short(names: Sequence[str]) -> list[str]:
    """Return the names without the beginning that all have in common, where they are long: `…012 to 019`."""
    parts = [name.split(" to ") for name in names]
    start = commonprefix([part for pair in parts for part in pair])  # noqa: RUF071  names are compared, no paths
    start = start[: max(start.rfind(mark) for mark in "-._/") + 1]
    if max(map(len, names), default=0) <= _LONGEST or not start:
        return [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name in names]
    return [f"…{' to '.join(part.removeprefix(start) for part in pair)}" for pair in parts]


def _outlines(culprits: Sequence[int], grid: RankGrid, palette: Palette) -> list[Part]:
    found: list[Part] = []
    line = {"width": 2.5 if len(grid.x_names) <= _WIDE else 1.5, "color": palette.text}
    for at in np.flatnonzero(np.isin(grid.ranks, culprits)).tolist():
        x, y = int(grid.x[at]), int(grid.y[at])
        box = {"x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5}
        found.append({"type": "rect", **box, "line": line})
    return found


def _borders(grid: RankGrid, palette: Palette) -> list[Part]:
    line = {"width": 1, "color": palette.muted}
    return [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at - 0.5, "y1": at - 0.5, "line": line}
        for at in grid.borders
    ]


def _by_state(job: JobRanks, palette: Palette) -> tuple[Cells, Part]:
    colors = (
        palette.grid,
        palette.sequential[1][1],
        palette.lines[5],
        palette.warning,
        palette.error,
        palette.lines[3],
    )
    return job.state_codes.astype(np.float64), _words_legend(STATES, colors, job.state_codes, palette)


def _by_divergence(job: JobRanks, palette: Palette) -> tuple[Cells, Part]:
    words = {AGREES: "agrees", STANDS_OUT: "stands out", DIFFERS: "differs"}
    colors = (palette.lines[5], palette.warning, palette.error)
    return job.divergence.astype(np.float64), _words_legend(tuple(words.values()), colors, job.divergence, palette)


def _by_work(job: JobRanks, palette: Palette) -> tuple[Cells, Part]:
    with np.errstate(divide="ignore"):
        ratio = np.log2(job.work_ratio)
    ticks = {"tickvals": [-0.9 * _FULL, 0.0, 0.9 * _FULL], "ticktext": ["⅔ × or less", "the median", "1.5 × or more"]}
    legend = {
        "zmin": -_FULL,
        "zmax": _FULL,
        "colorscale": [[at, palette.grid if at == _MIDDLE else color] for at, color in palette.diverging],
        "colorbar": _bar(palette, ticks),
    }
    return np.where(np.isfinite(ratio), ratio, np.nan), legend


def _words_legend(
    words: Sequence[str], colors: Sequence[str], codes: NDArray[np.int64], palette: Palette
) -> dict[str, object]:
    """Return a colour scale with a step for each word that occurs; others are not in the legend."""
    used = np.unique(codes).tolist()
    low, high = min(used, default=0), max(used, default=0)
    ticks = {"tickvals": used, "ticktext": [words[code] for code in used]}
    scale = [[edge / (high - low + 1), colors[low + at]] for at in range(high - low + 1) for edge in (at, at + 1)]
    return {"zmin": low - 0.5, "zmax": high + 0.5, "colorscale": scale, "colorbar": _bar(palette, ticks)}


def _bar(palette: Palette, ticks: Mapping[str, object]) -> dict[str, object]:
    return {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "y": 1,
        "yanchor": "bottom",
        "ypad": 4,
        "xpad": 0,
        "len": 1.0,
        "thickness": 8,
        "outlinewidth": 0,
        "ticklabelposition": "outside top",
        "tickfont": {"size": 10, "color": palette.muted},
        **ticks,
    }


_COLOURINGS: Final[Mapping[Colouring, Callable[[JobRanks, Palette], tuple[Cells, Part]]]] = {
    "state": _by_state,
    "work": _by_work,
    "divergence": _by_divergence,
}
