"""The panels of a live run as they are laid out."""

import time

from dash import html
from dash.development.base_component import Component

from ....storage import Run
from ...address import Address
from ...components import empty_state, graph, panel, run_header, run_link, run_picker, run_status
from ...components.live_controls import curve_controls, heat_controls, tensor_controls
from ...data import Reader
from ...ids import Live as Id
from ...pictures.run import curve_picture
from ...places import usual_maps
from ...spans import SPAN, span_of
from ...theme import Palette
from .keys import MAPS, SCALAR, SCALE, VIEW


def _maps_of(reader: Reader, run: Run, here: Address) -> list[str]:
    said = [metric for metric in MAPS.of(here).split(",") if metric]
    return said[:3] or usual_maps(reader.metrics(run.id), here.metric)


def _scalar_of(reader: Reader, run: Run, here: Address) -> str:
    """The scalar that the address names; of a run that has no loss, its first."""
    scalars = reader.scalars(run.id)
    said = SCALAR.of(here)
    return scalars[0] if said == SCALAR.usual and said not in scalars and scalars else said


def evaluation(reader: Reader, run: Run) -> Component:
    """What the page says of a run that has no steps."""
    note = empty_state(
        "An evaluation",
        "It has no steps; what the attacks did stands under Robustness.",
        run_link("Open it", Address("robustness", run=run.parent or run.id).href),
    )
    status = html.Div(run_status(run, time.time()), className="status")
    return html.Div(
        [run_header(run, status, run_picker(Id.run, reader.runs(), run)), html.Section(note, className="panel")]
    )


def curve_panel(reader: Reader, run: Run, here: Address, palette: Palette) -> html.Section:
    """The curve is laid out with its figure: it is what a person waits for, and one question less."""
    scalar, scale = _scalar_of(reader, run, here), SCALE.of(here)
    figure = curve_picture(reader, run.id, scalar, scale, palette, span_of(SPAN.of(here)))
    picture = graph(Id.curve, "the chosen scalar over the steps, findings marked", 230, figure)
    controls = curve_controls(reader.scalars(run.id), scalar, scale)
    return panel("Curve", picture, controls)


def heat_panel(reader: Reader, run: Run, here: Address) -> html.Section:
    """The maps of layers by steps."""
    metrics = reader.metrics(run.id)
    controls = heat_controls(metrics, _maps_of(reader, run, here), VIEW.of(here))
    body = [
        graph(Id.heat, "layer by step; choose a cell, or a site and step below, to see its tensor"),
        html.Div(id=Id.heat_note),
    ]
    return panel("Layer × step", body, controls)


def tensor_bar(reader: Reader, run: Run, here: Address) -> html.Div:
    """The keyboard's way to a tensor."""
    controls = tensor_controls(reader.metrics(run.id), reader.sites(run.id, here.metric), here)
    return html.Div([html.Span("Tensor", className="bar-title"), *controls], className="bar")
