"""The loss of a run as a small document of its own, drawn here: it is on the screen before any script is.

The pages replace it as soon as they are there. It imports neither Dash nor Plotly, so that it can be shown while these
are being imported, and reads the store itself for the same reason.
"""

from collections.abc import Sequence
from html import escape
from math import isfinite
from typing import Final

from ..storage import ROOT_SITE, Run, Store
from .words import number

_POINTS: Final = 600
_WIDTH: Final = 1000.0
_HEIGHT: Final = 200.0
#: Room above the highest value, where what is not finite is marked.
_TOP: Final = 16.0
_STYLE: Final = """
#glimpse { position: fixed; inset: 0 0 0 208px; z-index: 4; padding: 22px 28px; background: #f5f6f8; color: #1d2433;
  font: 14px/1.5 Inter, "Segoe UI", system-ui, sans-serif; }
#glimpse h1 { margin: 0 0 18px; font-size: 21px; line-height: 1.25; }
#glimpse figure { position: relative; margin: 0; padding: 24px 18px 30px 70px; background: #fff;
  border: 1px solid #e3e7ee; border-radius: 12px; }
#glimpse svg { display: block; width: 100%; height: 230px; overflow: visible; }
#glimpse path { fill: none; stroke: #2a62c9; stroke-width: 1.8; vector-effect: non-scaling-stroke; }
#glimpse path.bad { stroke: #c81e78; }
#glimpse path.since { stroke: #c4420a; stroke-dasharray: 3 3; }
#glimpse figure span { position: absolute; color: #5f6b7d; font-size: 11px; }
@media (prefers-color-scheme: dark) {
  #glimpse { background: #0f1319; color: #e6eaf0; }
  #glimpse figure { background: #171c24; border-color: #28303d; }
  #glimpse path { stroke: #7db0ff; }
}
@media (max-width: 860px) { #glimpse { inset: 0; } }
"""


def glimpse(store: Store, run: Run) -> str | None:
    """The run's loss over its steps as HTML, with the first finding marked; None when it has no loss to show."""
    series = store.series(run.id, ROOT_SITE, "scalar/loss", limit=_POINTS)
    steps, values = series.steps.tolist(), series.values.tolist()
    finite = [value for value in values if isfinite(value)]
    if not finite:
        return None
    low, high = min(finite), max(finite)
    first, last = steps[0], max(steps[-1], steps[0] + 1)
    places = [_WIDTH * (step - first) / (last - first) for step in steps]
    heights = [
        _HEIGHT - (_HEIGHT - _TOP) * (value - low) / ((high - low) or 1.0) if isfinite(value) else None
        for value in values
    ]
    drawn = [f'<path d="{_line(places, heights)}"/>', f'<path class="bad" d="{_marks(places, heights)}"/>']
    since = min((one.first_step for one in store.findings(run.id)), default=None)
    if since is not None and first <= since <= last:
        at = _WIDTH * (since - first) / (last - first)
        drawn.append(f'<path class="since" d="M{at:.1f} 0V{_HEIGHT:g}"/>')
    name = escape(run.name or run.id)
    return (
        f'<div id="glimpse"><style>{_STYLE}</style><h1>{name}</h1><figure>'
        f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" preserveAspectRatio="none" role="img" '
        f'aria-label="loss of {name}, from {number(values[0])} to {number(values[-1])}">{"".join(drawn)}</svg>'
        f'<span style="left: 70px; top: 6px">loss</span>'
        f'<span style="left: 18px; top: 28px">{number(high)}</span>'
        f'<span style="left: 18px; bottom: 26px">{number(low)}</span>'
        f'<span style="left: 70px; bottom: 8px">{first:,}</span>'
        f'<span style="right: 18px; bottom: 8px">step {steps[-1]:,}</span></figure></div>'
    )


def _line(places: Sequence[float], heights: Sequence[float | None]) -> str:
    """The path through what is finite, broken where something is not."""
    pieces, pen = [], "M"
    for x, y in zip(places, heights, strict=True):
        if y is not None:
            pieces.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "M" if y is None else "L"
    return "".join(pieces)


def _marks(places: Sequence[float], heights: Sequence[float | None]) -> str:
    """A short stroke above the curve for every value that is not finite."""
    return "".join(f"M{x:.1f} 0v8" for x, y in zip(places, heights, strict=True) if y is None)
