"""One tensor in full: its series over any axis, its range, its distribution over time, and what stands around it."""

import time
from typing import Final, cast

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Input, Output, State, dcc, html
from dash.development.base_component import Component

from ...storage import InvalidName, Run, display_site, nearest, split_metric
from ..address import Address, Key
from ..beat import beat, connect_beat
from ..components import empty_state, graph, panel, run_header, run_picker, run_status
from ..components.around import around
from ..components.choices import AT_THE_RIGHT, choose, labelled, site_choices, site_of, step_input, switch, with_chosen
from ..components.detail import nowhere, statistics_of
from ..controls import METRIC, SITE, STEP, control_keys, follow_run, keep_address
from ..data import AXES, Reader, neighbours
from ..downloads import FORMATS, download_link
from ..ids import Shell
from ..ids import Tensor as Id
from ..page import page
from ..pictures.tensor import OVERS, Look, band_of, curve_of, distribution_over_time, names_of, series_of
from ..places import place_of
from ..spans import SPAN, span_of
from ..theme import Palette, palette_of

AXIS = Key("axis", "step", AXES)
OVER = Key("over", "nothing", OVERS)
WITH = Key("with")
AXES_SCALE = Key("log", "none", ("none", "y", "x", "both"))
_NAMES: Final = {"csv": "CSV", "parquet": "Parquet"}
_OFFERED: Final = 300
_CONTROLS: Final = (
    (Id.metric, "value", METRIC),
    (Id.site, "value", SITE),
    (Id.step, "value", STEP),
    (Id.axis, "value", AXIS),
    (Id.log, "value", AXES_SCALE),
    (Id.over, "value", OVER),
    (Id.others, "value", WITH),
    (Id.span, "data", SPAN),
)


def connect(app: dash.Dash, reader: Reader) -> None:
    """Draws what is looked at whenever a choice or the run has changed."""

    @app.callback(
        Output(Id.body, "children"),
        Output(Id.metric, "data"),
        Output(Id.site, "data"),
        *(Input(name, part) for name, part, _ in _CONTROLS),
        Input(Id.version, "data"),
        State(Shell.scheme, "data"),
        State(Id.run, "value"),
    )
    def draw(*said: object) -> tuple[object, ...]:
        *choices, _, scheme, reference = said
        metric, choice, step, axis, log, over, others, span = choices
        run, site = reader.find(cast("str", reference)), site_of(cast("str | None", choice))
        look = Look(
            run,
            site or "",
            cast("str | None", metric) or "",
            axis=axis,  # type: ignore[arg-type]  # the control offers nothing else
            span=span_of(cast("str | None", span)),
            over=over,  # type: ignore[arg-type]  # as above
            others=names_of(cast("list[str] | None", others)),
            log_x=log in ("x", "both"),
            log_y=log in ("y", "both"),
            step=step if isinstance(step, int) else None,
        )
        metrics = with_chosen(reader.metrics(run.id), look.metric)
        offered = site_choices(reader.sites(run.id, look.metric), site)
        if site is None:
            return [html.Section(_no_site(), className="panel")], metrics, offered
        return _body(reader, look, palette_of(cast("str | None", scheme))), metrics, offered

    connect_beat(app, reader, tick=Id.tick, version=Id.version, run=Id.run)
    keep_address(app, Id.keys, _CONTROLS)
    follow_run(app, Id.run)
    app.clientside_callback(
        ClientsideFunction("mindscope", "zoomed"),
        Output(Id.span, "data"),
        Input(Id.curve, "relayoutData"),
        State(Id.span, "data"),
        prevent_initial_call=True,
    )


def _body(reader: Reader, look: Look, palette: Palette) -> list[Component]:
    try:
        subject, _ = split_metric(look.metric)
    except InvalidName as error:
        return [html.Section(empty_state("No such metric", str(error), "Choose one from the list."), className="panel")]
    series = series_of(reader, look)
    if not series.total:
        return [html.Section(_nothing(reader, look), className="panel")]
    here = Address("tensor", look.run.id, look.metric, look.site, look.step)
    at = look.step if look.step is not None else int(series.steps[-1])
    near = neighbours(reader, look.run.id, look.site)
    return [
        _curve_panel(reader, look, here, palette),
        _values_panel(reader, look, subject, palette),
        panel("Around it", around(here, near)),
        panel(
            f"All statistics of the {subject} at step {at:,}",
            statistics_of(reader, look.run, look.site, subject, at, series),
        ),
    ]


def _curve_panel(reader: Reader, look: Look, here: Address, palette: Palette) -> html.Section:
    figure = curve_of(reader, look, palette)
    links = [
        html.A(f"Download {_NAMES[form]}", href=download_link(here, form=form), className="button") for form in FORMATS
    ]
    title = html.Span(
        [html.Span(display_site(look.site), className="mono"), html.Span(look.metric, className="mono muted")]
    )
    if figure is None:
        body: Component = empty_state(
            f"No {look.axis} was recorded",
            f"Log it beside the loss, `monitor.log({look.axis}=...)`, or choose another axis.",
        )
    else:
        body = graph(Id.curve, f"{look.metric} of {display_site(look.site)} over the {look.axis}", 320, figure)
    return panel(title, body, links)


def _values_panel(reader: Reader, look: Look, subject: str, palette: Palette) -> html.Section:
    site = display_site(look.site)
    band, map_ = band_of(reader, look, palette), distribution_over_time(reader, look, palette)
    left: Component = (
        graph("tensor-band", f"smallest, mean and largest value of the {subject} of {site}", 260, band)
        if band
        else empty_state("No range", f"Smallest and largest value of the {subject} were not recorded here.")
    )
    right: Component = (
        graph("tensor-distribution", f"distribution of the {subject} of {site} over the steps", 260, map_)
        if map_
        else empty_state("No histograms", "Turn them on in the monitor's configuration, `histograms: true`.")
    )
    parts = (("Smallest to largest, and mean", left), ("Distribution over time", right))
    both = [html.Div([html.H3(words, className="part-title"), part], className="part") for words, part in parts]
    return panel("Values", html.Div(both, className="two even"))


def _no_site() -> Component:
    return empty_state("No tensor chosen", "Choose a site above, or click a cell on the pages Live run and Layers.")


def _nothing(reader: Reader, look: Look) -> Component:
    known = reader.sites(look.run.id, look.metric)
    title = "Nothing recorded here" if look.span is None else "Nothing recorded in these steps"
    words = (
        f"{display_site(look.site)} has no {look.metric}{nearest(look.site, known) if look.site not in known else ''}"
    )
    return empty_state(title, words.rstrip(".") + ".", nowhere(reader, look.run, look.site))


def _controls(reader: Reader, run: Run, here: Address) -> list[Component]:
    chosen = None if here.site is None else display_site(here.site)
    sites = site_choices(reader.sites(run.id, here.metric), here.site)
    runs = [one for one in reader.runs()[:_OFFERED] if one.id != run.id]
    others = dmc.MultiSelect(
        id=Id.others,
        data=[{"value": one.id, "label": f"{one.name or one.id} · {one.id[-4:]}"} for one in runs],
        value=list(names_of(WITH.of(here).split(","))),
        placeholder="lay over runs",
        searchable=True,
        maxValues=5,
        size="xs",
        maw=360,
        miw=130,
        comboboxProps=AT_THE_RIGHT,
        **{"aria-label": "Runs laid over this one"},
    )
    return [
        choose(Id.metric, "Metric", with_chosen(reader.metrics(run.id), here.metric), here.metric or None, 230),
        choose(Id.site, "Site", sites, chosen, 240, placeholder="site"),
        step_input(Id.step, here.step),
        labelled("over", switch(Id.axis, "Axis", AXES, AXIS.of(here))),
        labelled("log", switch(Id.log, "Logarithmic axes", AXES_SCALE.words, AXES_SCALE.of(here))),
        labelled("lay over", switch(Id.over, "Lay over", OVERS, OVER.of(here))),
        others,
    ]


@page("tensor", title="Tensor", icon="tensor", connect=connect, keys=(AXIS, AXES_SCALE, OVER, WITH, SPAN))
def layout(reader: Reader, address: Address) -> Component:
    """One tensor of one run."""
    run = reader.find(address.run)
    here = place_of(reader, run, address)
    status = html.Div(run_status(run, time.time()), className="status")
    body = html.Div(graph(Id.curve, "the series of the tensor", 320), id=Id.body)
    return html.Div(
        [
            run_header(run, status, run_picker(Id.run, reader.runs(), run)),
            html.Div(_controls(reader, run, here), className="bar"),
            dcc.Loading(body, delay_show=400),
            control_keys(Id.keys, _CONTROLS),
            dcc.Store(id=Id.span, data=SPAN.of(here)),
            *beat(Id.tick, Id.version, reader.version(run.id)),
        ]
    )
