"""What the comparison of two runs found: where they part, and in what they differ."""

import math
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from ...insight.compare import Comparison, Difference
from ...storage import Run, display_site
from ..address import Address
from ..words import count, number
from .cards import card

_SHOWN: Final = 200
_VERDICTS: Final = {
    "identical": ("Identical", "equal to the bit in every value", "good"),
    "within_noise": ("Within rounding", "they differ, and never by more than rounding explains", "good"),
    "unclear": ("Cannot tell", "the first step differs by more than rounding explains, and not for certain", "watch"),
    "diverged": ("They part", "equal or within rounding before", "watch"),
    "different_start": ("Different from the start", "other initial weights, data or settings", "watch"),
    "incomparable": ("Nothing in common", "no value of one site, metric and step is in both", "quiet"),
}


def verdict_cards(run: Run, found: Comparison) -> list[html.Div]:
    """Whether they are the same, where they part, and by how much."""
    words, why, tone = _VERDICTS[found.verdict]
    common = f"{count(found.common, 'common step')}, {found.values:,} values compared"
    if found.first is None:
        none = card("First difference", "–", "none beyond rounding")
        return [card("Verdict", words, why, tone), card("Compared", count(found.common, "step"), common), none]
    one = found.first
    place = Address("run", run=run.id)
    if not one.metric.startswith("scalar/"):
        place = Address("tensor", run=run.id).at(one.metric, one.site, one.step)
    site = dcc.Link(display_site(one.site), href=place.href, className="mono site-link")
    gap = f"{one.difference:.3g} relative" if math.isfinite(one.difference) else "one of them is not finite"
    exact = f"equal to the bit up to step {found.exact_until:,}" if found.exact_until >= 0 else common
    return [
        card("Verdict", words, why, tone),
        card("First at step", f"{one.step:,}", exact),
        card("Where", site, one.metric),
        card("How far", gap, f"{number(one.first, 9)} and {number(one.second, 9)}"),
    ]


def differences_table(differences: tuple[Difference, ...], first: Run, second: Run) -> Component:
    """In what the two differ besides their numbers."""
    if not differences:
        return html.P("Configuration, structure and environment are the same.", className="muted")
    rows = [
        html.Tr(
            [
                html.Td(one.area),
                html.Td([one.name, *([html.Div(one.note, className="muted")] if one.note else [])], className="mono"),
                html.Td(_said(one.first)),
                html.Td(_said(one.second)),
            ]
        )
        for one in differences[:_SHOWN]
    ]
    names = ("Area", "Name", first.name or first.id, second.name or second.id)
    table = html.Table([html.Thead(html.Tr([html.Th(name) for name in names])), html.Tbody(rows)], className="table")
    left = len(differences) - len(rows)
    more = [html.P(f"and {left} more; `mindscope compare --json` lists all", className="muted")] if left > 0 else []
    return html.Div([table, *more], className="table-frame", tabIndex=0, role="region", **{"aria-label": "differences"})


def _said(value: object) -> str:
    text = "–" if value is None else str(value)
    return text if len(text) <= 90 else f"{text[:87]}…"
