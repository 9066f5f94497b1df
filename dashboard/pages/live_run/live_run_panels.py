"""The panels of a live run as they are laid out, with their ids, controls and the keys of their address."""

import time
from collections.abc import Sequence
from typing import Final

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component

from ....storage import Run, display_site
from ...address import SPAN, PageAddress, QueryKey, span_of
from ...components.form_controls import AT_THE_RIGHT, choose, labelled, site_choices, step_input, switch, with_chosen
from ...components.page_parts import empty_state, graph, panel
from ...components.run_header import run_header, run_link, run_picker, run_status
from ...headline import default_maps
from ...page_callbacks import METRIC, SITE, STEP
from ...queries.reader import Reader
from ...queries.result_queries import main_loss
from ...run_figures import run_curve_figure
from ...theme import Palette


class LiveRunIds:
    """Ids of the live page of a run."""

    keys: Final = "live-keys"
    tick: Final = "live-tick"
    cursor: Final = "live-cursor"
    tail: Final = "live-tail"
    redraw: Final = "live-redraw"
    slow_tick: Final = "live-beat"
    run: Final = "live-run"
    follow: Final = "live-follow"
    status: Final = "live-status"
    cards: Final = "live-cards"
    verdict: Final = "live-verdict"
    scalar: Final = "live-scalar"
    scale: Final = "live-scale"
    curve: Final = "live-curve"
    maps: Final = "live-maps"
    span: Final = "live-span"
    metric: Final = "live-metric"
    view: Final = "live-view"
    heat: Final = "live-heat"
    heat_name: Final = "live-heat-name"
    heat_note: Final = "live-heat-note"
    site: Final = "live-site"
    step: Final = "live-step"
    detail: Final = "live-detail"


SCALAR, SCALE = QueryKey("scalar", "loss"), QueryKey("scale", "linear", ("linear", "log"))
MAPS, VIEW = QueryKey("maps"), QueryKey("view", "deviation", ("deviation", "raw"))
CONTROLS: Final = (
    (LiveRunIds.scalar, "value", SCALAR),
    (LiveRunIds.scale, "value", SCALE),
    (LiveRunIds.maps, "value", MAPS),
    (LiveRunIds.view, "value", VIEW),
    (LiveRunIds.span, "data", SPAN),
    (LiveRunIds.metric, "value", METRIC),
    (LiveRunIds.site, "value", SITE),
    (LiveRunIds.step, "value", STEP),
)


_MOST_MAPS = 3


def curve_controls(scalars: Sequence[str], scalar: str, scale: str) -> list[Component]:
    """Build the controls of the curve: which scalar, on which axis."""
    return [
        choose(LiveRunIds.scalar, "Scalar", with_chosen(scalars, scalar), scalar, 180),
        switch(LiveRunIds.scale, "Value axis", ["linear", "log"], scale),
    ]


def heat_controls(metrics: Sequence[str], maps: Sequence[str], view: str) -> list[Component]:
    """Build the controls of the maps: which metrics, in which colours."""
    shown = dmc.MultiSelect(
        id=LiveRunIds.maps,
        data=with_chosen(metrics, *maps),
        value=list(maps),
        maxValues=_MOST_MAPS,
        searchable=True,
        limit=300,
        size="xs",
        maw=640,
        comboboxProps=AT_THE_RIGHT,
        nothingFoundMessage="No match",
        **{"aria-label": "Metrics of the maps"},
    )
    return [shown, labelled("colours", switch(LiveRunIds.view, "Colours show", ["deviation", "raw"], view))]


def tensor_controls(metrics: Sequence[str], sites: Sequence[str], here: PageAddress) -> list[Component]:
    """Build the controls that choose a tensor by keyboard instead of by a cell."""
    chosen = None if here.site is None else display_site(here.site)
    return [
        choose(LiveRunIds.metric, "Metric", with_chosen(metrics, here.metric), here.metric or None, 220),
        choose(
            LiveRunIds.site, "Site", site_choices(sites, here.site), chosen, 220, clearable=True, placeholder="site"
        ),
        step_input(LiveRunIds.step, here.step),
    ]


def _maps_of(reader: Reader, run: Run, here: PageAddress) -> list[str]:
    chosen = [metric for metric in MAPS.of(here).split(",") if metric]
    return chosen[:3] or default_maps(reader.metrics(run.id), here.metric)


def _scalar_of(reader: Reader, run: Run, here: PageAddress) -> str:
    """Return the scalar that the address names; for a run without a loss the one that is nearest to it."""
    chosen = SCALAR.of(here)
    if chosen != SCALAR.usual or chosen in reader.scalars(run.id):
        return chosen
    return main_loss(reader, run).name or chosen


def evaluation(reader: Reader, run: Run) -> Component:
    """Build the page of an evaluation, which has no steps."""
    note = empty_state(
        "An evaluation",
        "It has no steps; the page Robustness shows its attacks.",
        run_link("Open it", PageAddress("robustness", run=run.parent or run.id).href),
    )
    status = html.Div(run_status(run, time.time()), className="status")
    return html.Div(
        [run_header(run, status, run_picker(LiveRunIds.run, reader.runs(), run)), html.Section(note, className="panel")]
    )


def curve_panel(reader: Reader, run: Run, here: PageAddress, palette: Palette) -> html.Section:
    """Build the curve's panel with its figure: it is what the visitor waits for, and saves a request."""
    scalar, scale = _scalar_of(reader, run, here), SCALE.of(here)
    figure = run_curve_figure(reader, run.id, scalar, scale, palette, span_of(SPAN.of(here)))
    curve = graph(LiveRunIds.curve, "the chosen scalar over the steps, findings marked", 230, figure)
    controls = curve_controls(reader.scalars(run.id), scalar, scale)
    return panel("Curve", curve, controls)


def heat_panel(reader: Reader, run: Run, here: PageAddress) -> html.Section:
    """Build the panel of the layer by step maps."""
    metrics = reader.metrics(run.id)
    controls = heat_controls(metrics, _maps_of(reader, run, here), VIEW.of(here))
    body = [
        graph(LiveRunIds.heat, "layer by step; choose a cell, or a site and step below, to see its tensor"),
        html.Div(id=LiveRunIds.heat_note),
    ]
    return panel("Layer × step", body, controls)


def tensor_bar(reader: Reader, run: Run, here: PageAddress) -> html.Div:
    """Build the bar that chooses a tensor by keyboard."""
    controls = tensor_controls(reader.metrics(run.id), reader.sites(run.id, here.metric), here)
    return html.Div([html.Span("Tensor", className="bar-title"), *controls], className="bar")
