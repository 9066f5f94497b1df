"""Two runs: where they diverge first, in what they differ, and any metric of both over one axis."""

import math
import time
from dataclasses import dataclass
from typing import Final

import dash
import dash_mantine_components as dmc
import plotly.graph_objects as go
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component

from ...insight.compare import Comparison, Difference
from ...storage import ROOT_SITE, Run, RunNotFound, display_site
from ..address import PageAddress, QueryKey
from ..components.form_controls import choose, labelled, site_choices, site_of, switch, with_chosen
from ..components.page_parts import card, empty_state, graph, panel
from ..components.run_header import run_header, run_link, run_picker, run_status
from ..components.shell import ShellIds
from ..figures.heatmap_figure import NamedHeatmap, heat_of, heat_stack
from ..figures.series_figure import Line, overlay_figure
from ..formatting import count, number
from ..headline import metric_error
from ..page_callbacks import METRIC, SITE, control_keys, follow_run, keep_address
from ..page_registry import page
from ..queries.comparison_queries import (
    alignment,
    common_metrics,
    comparison,
    difference_matrix,
    first_difference,
    model_of,
)
from ..queries.reader import Reader
from ..queries.x_axes import AXES, along, axes_of
from ..theme import Palette, palette_of

OTHER = QueryKey("with")
ALONG = QueryKey("along", "step", AXES)
TOLERANCE = QueryKey("tolerance", "0", pattern=r"\d{1,12}(\.\d{1,12})?(e-?\d{1,3})?", example="1e-3")


class CompareIds:
    """Ids of the components of this page."""

    run: Final = "compare-run"
    keys: Final = "compare-keys"
    other: Final = "compare-other"
    metric: Final = "compare-metric"
    site: Final = "compare-site"
    along: Final = "compare-along"
    tolerance: Final = "compare-tolerance"
    verdict: Final = "compare-verdict"
    lines: Final = "compare-lines"
    map: Final = "compare-map"
    note: Final = "compare-note"
    differences: Final = "compare-differences"


CONTROLS: Final = (
    (CompareIds.other, "value", OTHER),
    (CompareIds.metric, "value", METRIC),
    (CompareIds.site, "value", SITE),
    (CompareIds.along, "value", ALONG),
    (CompareIds.tolerance, "value", TOLERANCE),
)


_POINTS: Final = 2000
#: Runs among which one with the same model is looked for, the nearest in time. Our choice: a second of reading.
_LOOKED_AT: Final = 40


@dataclass(frozen=True, slots=True)
class RunPair:
    """The two runs that are compared."""

    first: Run
    second: Run


def pair_of(reader: Reader, run: Run, other: str | None) -> RunPair | None:
    """Return the run with the other one, or with the next older training, of the same model if there is one.

    None where there is no other training.
    """
    if other:
        return RunPair(run, reader.find(other))
    others = [candidate for candidate in reader.runs() if candidate.id != run.id and candidate.kind != "evaluation"]
    older = [candidate for candidate in others if candidate.created_at <= run.created_at]
    near = [*older, *(candidate for candidate in reversed(others) if candidate not in older)]
    model = model_of(reader, run)
    alike = (candidate for candidate in near[:_LOOKED_AT] if model and model_of(reader, candidate) == model)
    return RunPair(run, next(alike, near[0])) if near else None


def overlay(reader: Reader, pair: RunPair, metric: str, site: str, axis: str, palette: Palette) -> go.Figure:
    """Draw the metric of both runs over one axis."""
    counterpart = alignment(reader, pair.first, pair.second).pairs.get(site, site)
    lines = []
    for run, matched_site in ((pair.first, site), (pair.second, counterpart)):
        series = reader.series(run.id, matched_site, metric, limit=_POINTS)
        x = along(reader, run, series, axis)
        lines.append(Line(f"{run.name or run.id} · {run.id[-4:]}", series.steps, x, series.values))
    unit = {"time": "seconds since the start"}.get(axis, axis)
    return overlay_figure(lines, palette, title=metric.removeprefix("scalar/"), axis=unit)


def difference_note(reader: Reader, pair: RunPair, metric: str, tolerance: float) -> str:
    """Say where the metric first differs by more than the tolerance."""
    apart = difference_matrix(reader, pair.first, pair.second, metric)
    if not apart.steps.size or not apart.sites:
        return "The two runs share no step and site of this metric."
    found = first_difference(apart, tolerance)
    if found is None:
        return f"The runs never differ by more than {tolerance:g}, relative to the larger value."
    gap = number(found.difference) if math.isfinite(found.difference) else "one of them is not finite"
    location = f"{display_site(found.site)} from step {found.step:,}"
    return f"First difference above {tolerance:g}: {location} ({gap})."


def tolerance_of(text: str | None) -> float:
    """Parse the tolerance that the visitor typed; 0 for invalid text."""
    try:
        value = float(text or 0)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) and value >= 0 else 0.0


_SHOWN: Final = 200
_VERDICTS: Final = {
    "identical": ("Identical", "equal to the bit in every value", "good"),
    "within_noise": ("Within rounding", "the runs differ, but never by more than rounding explains", "good"),
    "unclear": ("Cannot tell", "the first step may differ by more than rounding explains", "watch"),
    "diverged": ("Diverged", "equal, or within rounding, before that", "watch"),
    "different_start": ("Different from the start", "other initial weights, data or settings", "watch"),
    "incomparable": ("Nothing in common", "the runs share no site, metric and step", "quiet"),
}


def verdict_cards(run: Run, found: Comparison) -> list[html.Div]:
    """Build cards: whether the runs are the same, where they diverge, and by how much."""
    words, why, tone = _VERDICTS[found.verdict]
    if found.verdict == "identical" and found.apart:
        words, why, tone = "Equal where both recorded", "; ".join(found.apart), "watch"
    common = f"{count(found.common, 'common step')}, {found.values:,} values compared"
    if found.first is None:
        none = card("First difference", "–", "none beyond rounding")
        return [card("Verdict", words, why, tone), card("Compared", count(found.common, "step"), common), none]
    difference = found.first
    address = PageAddress("run", run=run.id)
    if not difference.metric.startswith("scalar/"):
        address = PageAddress("tensor", run=run.id).at(difference.metric, difference.site, difference.step)
    site = dcc.Link(display_site(difference.site), href=address.href, className="mono site-link")
    gap = (
        f"{difference.difference:.3g} relative" if math.isfinite(difference.difference) else "one of them is not finite"
    )
    exact = f"equal to the bit up to step {found.exact_until:,}" if found.exact_until >= 0 else common
    return [
        card("Verdict", words, why, tone),
        card("First at step", f"{difference.step:,}", exact),
        card("Where", site, difference.metric),
        card("Difference", gap, f"{number(difference.first, 9)} and {number(difference.second, 9)}"),
    ]


def differences_table(differences: tuple[Difference, ...], first: Run, second: Run) -> Component:
    """Build the table of how the two runs differ besides their numbers."""
    if not differences:
        return html.P("Configuration, structure and environment are the same.", className="muted")
    rows = [
        html.Tr(
            [
                html.Td(difference.area),
                html.Td(
                    [difference.name, *([html.Div(difference.note, className="muted")] if difference.note else [])],
                    className="mono",
                ),
                html.Td(_text(difference.first)),
                html.Td(_text(difference.second)),
            ]
        )
        for difference in differences[:_SHOWN]
    ]
    names = ("Area", "Name", first.name or first.id, second.name or second.id)
    table = html.Table([html.Thead(html.Tr([html.Th(name) for name in names])), html.Tbody(rows)], className="table")
    left = len(differences) - len(rows)
    more = [html.P(f"and {left} more; `mindscope compare --json` lists all", className="muted")] if left > 0 else []
    return html.Div([table, *more], className="table-frame", tabIndex=0, role="region", **{"aria-label": "differences"})


def _text(value: object) -> str:
    text = "–" if value is None else str(value)
    return text if len(text) <= 90 else f"{text[:87]}…"


def connect(app: dash.Dash, reader: Reader) -> None:
    """Compare the runs, draw both, and keep the address in step."""
    _connect_verdict(app, reader)
    _connect_figures(app, reader)
    keep_address(app, CompareIds.keys, CONTROLS)
    follow_run(app, CompareIds.run)


def _connect_verdict(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(CompareIds.verdict, "children"),
        Output(CompareIds.differences, "children"),
        Input(CompareIds.other, "value"),
        State(CompareIds.run, "value"),
    )
    def judge(other: str | None, reference: str) -> tuple[object, ...]:
        pair = pair_of(reader, reader.find(reference), other)
        if pair is None:
            return [], []
        found = comparison(reader, pair.first, pair.second)
        return verdict_cards(pair.first, found), differences_table(found.differences, pair.first, pair.second)


def _connect_figures(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(CompareIds.lines, "figure"),
        Output(CompareIds.map, "figure"),
        Output(CompareIds.map, "style"),
        Output(CompareIds.note, "children"),
        Output(CompareIds.site, "data"),
        Input(CompareIds.other, "value"),
        Input(CompareIds.metric, "value"),
        Input(CompareIds.site, "value"),
        Input(CompareIds.along, "value"),
        Input(CompareIds.tolerance, "value"),
        State(ShellIds.scheme, "data"),
        State(CompareIds.run, "value"),
    )
    def draw(
        other: str | None,
        metric: str | None,
        choice: str | None,
        axis: str,
        tolerance: str | None,
        scheme: str | None,
        reference: str,
    ) -> tuple[object, ...]:
        pair, palette, name = pair_of(reader, reader.find(reference), other), palette_of(scheme), metric or ""
        if pair is None:
            return dash.no_update, dash.no_update, {"display": "none"}, None, []
        if why := metric_error(name):
            return dash.no_update, dash.no_update, {"display": "none"}, why, []
        sites = reader.sites(pair.first.id, name)
        site = site_of(choice)
        site = next(iter(sites), ROOT_SITE) if site is None else site
        lines = overlay(reader, pair, name, site, axis, palette)
        if name.startswith("scalar/"):
            return lines, dash.no_update, {"display": "none"}, None, site_choices(sites, site)
        heat = heat_of(difference_matrix(reader, pair.first, pair.second, name), "raw")
        figure = heat_stack([NamedHeatmap(f"{name}, relative difference", heat)], palette)
        note = difference_note(reader, pair, name, tolerance_of(tolerance))
        return lines, figure, {"height": f"{figure.layout.height}px"}, note, site_choices(sites, site)


def _controls(reader: Reader, pair: RunPair, here: PageAddress) -> list[Component]:
    metrics = common_metrics(reader, pair.first, pair.second)
    metric = here.metric or next((name for name in ("scalar/loss", *metrics) if name in metrics), "")
    chosen = None if here.site is None else display_site(here.site)
    axes = [axis for axis in axes_of(reader, pair.first) if axis in axes_of(reader, pair.second)]
    tolerance = dmc.TextInput(
        id=CompareIds.tolerance,
        value=TOLERANCE.of(here),
        debounce=400,
        size="xs",
        w=90,
        leftSection="±",
        **{"aria-label": "Relative tolerance"},
    )
    return [
        choose(CompareIds.metric, "Metric", with_chosen(metrics, metric), metric or None, 220),
        choose(
            CompareIds.site,
            "Site",
            site_choices(reader.sites(pair.first.id, metric), here.site),
            chosen,
            200,
            clearable=True,
            placeholder="site",
        ),
        labelled("over", switch(CompareIds.along, "Drawn over", with_chosen(axes, ALONG.of(here)), ALONG.of(here))),
        tolerance,
    ]


def _previous_run_link(run: Run) -> Component:
    return run_link("Compare with the run before it", PageAddress("compare", run=run.id).href)


@page("compare", title="Compare", icon="compare", connect=connect, keys=(OTHER, ALONG, TOLERANCE))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out two runs side by side."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), className="status")
    head = run_header(run, status, run_picker(CompareIds.run, reader.runs(), run))
    try:
        pair = pair_of(reader, run, OTHER.of(address))
    except RunNotFound as error:
        note = empty_state("No such run to compare with", str(error), _previous_run_link(run))
        return html.Div([head, html.Section(note, className="panel")])
    if pair is None:
        note = empty_state(
            "Nothing to compare with",
            "This store holds one training. Start another and it appears here, or compare across stores with "
            "`mindscope compare A B --other-store URL`.",
        )
        return html.Div([head, html.Section(note, className="panel")])
    other = run_picker(CompareIds.other, reader.runs(), pair.second, label="Compared with")
    pickers = [run_picker(CompareIds.run, reader.runs(), run), labelled("against", other)]
    body = [
        graph(CompareIds.lines, "the metric of both runs over one axis", 300),
        html.Div(id=CompareIds.note, className="muted", role="status"),
        graph(CompareIds.map, "layer by step: how far the two lie apart"),
    ]
    return html.Div(
        [
            run_header(run, status, html.Div(pickers, className="page-head-controls")),
            dcc.Loading(html.Div(id=CompareIds.verdict, className="cards"), delay_show=300),
            panel("Both runs", body, _controls(reader, pair, address)),
            panel("What differs besides the numbers", dcc.Loading(html.Div(id=CompareIds.differences), delay_show=300)),
            control_keys(CompareIds.keys, CONTROLS),
        ]
    )
