"""Numbers on their scales as one table: what it is, the value, where it lies, and which values are good."""

import math
from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from ..data.gauges import Gauge, Gauged

_HEAD = (("Measured", ""), ("Value", "figure"), ("On its scale", ""), ("Good is", ""))


def gauges_table(found: Sequence[Gauged]) -> html.Div:
    """The numbers of each measurement under its title."""
    head = html.Tr([html.Th(name, className=kind, scope="col") for name, kind in _HEAD])
    groups = [html.Tbody([_title(one.title), *map(_row, one.gauges)]) for one in found]
    table = html.Table([html.Thead(head), *groups], className="table gauges")
    return html.Div(table, className="table-frame", tabIndex=0, role="region", **{"aria-label": "single numbers"})


def _title(words: str) -> html.Tr:
    return html.Tr(html.Th(words, colSpan=len(_HEAD), scope="rowgroup", className="gauges-title"))


def _row(one: Gauge) -> html.Tr:
    value: list[str | Component] = [html.Strong(one.scale.words(one.value))]
    value += [html.Div(f"{name} {one.scale.words(beside)}", className="muted") for name, beside in one.beside.items()]
    return html.Tr([html.Td(one.name), html.Td(value, className="figure"), html.Td(_strip(one)), html.Td(one.good)])


def _strip(one: Gauge) -> Component | None:
    """The scale from end to end, a dot for the value and a stroke for each of those beside it; nothing without ends."""
    scale = one.scale
    if math.isnan(scale.low) or math.isnan(scale.high):
        return None
    marks = [_mark("gauge-beside", scale.place(beside), name) for name, beside in one.beside.items()]
    marks += [_mark("gauge-zero", scale.place(0.0), "")] if scale.low < 0 else []
    marks += [_mark("gauge-dot", scale.place(one.value), "")]
    low, high = scale.ends
    said = f"{scale.words(one.value)} on a scale from {low} to {high}"
    line = html.Div([mark for mark in marks if mark is not None], className="gauge-line")
    ends = html.Div([html.Span(low), html.Span(high)], className="gauge-ends")
    return html.Div([line, ends], className="gauge", role="img", **{"aria-label": said})


def _mark(kind: str, place: float | None, title: str) -> html.Span | None:
    return None if place is None else html.Span(className=kind, style={"left": f"{place:.2%}"}, title=title or None)
