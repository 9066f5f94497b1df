"""Builds figures of many points quickly, without Plotly's validation."""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import plotly.graph_objects as go
from _plotly_utils.utils import to_typed_array_spec  # type: ignore[import-untyped]
from numpy.typing import NDArray

from ..theme import Palette, template

#: Properties of a trace or of a layout, as plotly.js spells them.
Part = Mapping[str, object]


def drawing(traces: Sequence[Part], palette: Palette, **layout: object) -> go.Figure:
    """Build a figure of the traces on the palette's template.

    Plotly would validate every point of every list, which took nine tenths of a figure's time (5.1 of 5.7 ms for 1,000
    points); the tests validate the figures instead.
    """
    return _Drawing([dict(trace) for trace in traces], {"template": _template(palette), **layout}, _validate=False)


class _Drawing(go.Figure):  # type: ignore[misc]  # Plotly has no types that mypy is shown
    """A figure that is sent without Plotly's copy of layout, template and data."""

    def to_dict(self) -> dict[str, object]:
        """Return traces and layout, arrays as plotly.js reads them fastest."""
        return {"data": [_sent(trace) for trace in self._data], "layout": dict(self._layout)}


def _sent(part: object) -> object:
    """Encode every array in the part of a trace as typed bytes; leave lists as they are."""
    if isinstance(part, np.ndarray):
        return to_typed_array_spec(part)
    if isinstance(part, dict):
        return {name: _sent(value) for name, value in part.items()}
    if isinstance(part, list) and part and isinstance(part[0], dict):
        return [_sent(value) for value in part]
    return part


def packed(values: Sequence[float | str | None]) -> NDArray[np.generic] | list[float | str | None]:
    """Pack the values as Plotly takes them fastest: an array, in which None is NaN; words stay a list.

    Plotly copies every number of a list twice before it sends it, which took half of an answer's time. Not for curves
    that grow: what is to be extended must be a list.
    """
    if values and isinstance(values[0], str):
        return list(values)
    return np.array(values) if None not in values else np.array(values, dtype=np.float64)


@cache
def _template(palette: Palette) -> dict[str, object]:
    """Return the template as JSON; every figure copies it."""
    spelled: dict[str, object] = template(palette).to_plotly_json()
    return spelled
