"""One tensor in full: its series over any axis, its range, its distribution over time, and its neighbours."""

import time
from collections.abc import Sequence
from typing import Final, cast

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Input, Output, State, dcc, html
from dash.development.base_component import Component

from ....storage import InvalidName, Run, display_site, nearest, split_metric
from ...address import SPAN, PageAddress, QueryKey, span_of
from ...components.form_controls import (
    AT_THE_RIGHT,
    choose,
    labelled,
    site_choices,
    site_of,
    step_input,
    switch,
    with_chosen,
)
from ...components.page_parts import empty_state, graph, panel
from ...components.run_header import run_header, run_picker, run_status
from ...components.shell import ShellIds
from ...components.tensor_detail import recorded_instead, statistics_of
from ...downloads import FORMATS, download_link
from ...headline import filled_address
from ...page_callbacks import METRIC, SITE, STEP, connect_polling, control_keys, follow_run, keep_address, polling_parts
from ...page_registry import page
from ...queries.model_queries import Neighbours, neighbours
from ...queries.reader import Reader
from ...queries.x_axes import AXES
from ...theme import Palette, palette_of
from .tensor_figures import OVERS, TensorView, band_of, curve_of, distribution_over_time, names_of, series_of


class TensorIds:
    """One tensor in full."""

    keys: Final = "tensor-keys"
    tick: Final = "tensor-tick"
    version: Final = "tensor-version"
    run: Final = "tensor-run"
    metric: Final = "tensor-metric"
    site: Final = "tensor-site"
    step: Final = "tensor-step"
    axis: Final = "tensor-axis"
    log: Final = "tensor-log"
    over: Final = "tensor-over"
    others: Final = "tensor-others"
    span: Final = "tensor-span"
    body: Final = "tensor-body"
    curve: Final = "tensor-curve"


#: More links of one kind than this are folded into a word.
_MOST_LINKS = 24


def neighbour_links(here: PageAddress, near: Neighbours) -> list[Component]:
    """List the neighbours, one line per kind."""
    holder = () if near.around is None else (near.around,)
    kinds = (
        ("Input from", near.before),
        ("Output to", near.after),
        ("Part of", holder),
        ("Holds", near.within),
    )
    lines = [_line(words, sites, here) for words, sites in kinds if sites]
    return lines or [html.P("This site is not in the recorded model.", className="muted")]


def _line(words: str, sites: Sequence[str], here: PageAddress) -> html.Div:
    links = [
        dcc.Link(display_site(site), href=here.at("", site, here.step).href, className="mono site-link")
        for site in sites[:_MOST_LINKS]
    ]
    rest = [html.Span(f"and {len(sites) - _MOST_LINKS:,} more", className="muted")] if len(sites) > _MOST_LINKS else []
    return html.Div([html.Span(words, className="muted"), *links, *rest], className="around")


AXIS = QueryKey("axis", "step", AXES)
OVER = QueryKey("over", "nothing", OVERS)
WITH = QueryKey("with")
AXES_SCALE = QueryKey("log", "none", ("none", "y", "x", "both"))
_NAMES: Final = {"csv": "CSV", "parquet": "Parquet"}
_OFFERED: Final = 300
_CONTROLS: Final = (
    (TensorIds.metric, "value", METRIC),
    (TensorIds.site, "value", SITE),
    (TensorIds.step, "value", STEP),
    (TensorIds.axis, "value", AXIS),
    (TensorIds.log, "value", AXES_SCALE),
    (TensorIds.over, "value", OVER),
    (TensorIds.others, "value", WITH),
    (TensorIds.span, "data", SPAN),
)


def connect(app: dash.Dash, reader: Reader) -> None:
    """Redraw the tensor whenever a choice or the run has changed."""

    @app.callback(
        Output(TensorIds.body, "children"),
        Output(TensorIds.metric, "data"),
        Output(TensorIds.site, "data"),
        *(Input(name, part) for name, part, _ in _CONTROLS),
        Input(TensorIds.version, "data"),
        State(ShellIds.scheme, "data"),
        State(TensorIds.run, "value"),
    )
    def draw(*values: object) -> tuple[object, ...]:
        *choices, _, scheme, reference = values
        metric, choice, step, axis, log, over, others, span = choices
        run, site = reader.find(cast("str", reference)), site_of(cast("str | None", choice))
        look = TensorView(
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
        site_options = site_choices(reader.sites(run.id, look.metric), site)
        if site is None:
            return [html.Section(_no_site(), className="panel")], metrics, site_options
        return _body(reader, look, palette_of(cast("str | None", scheme))), metrics, site_options

    connect_polling(app, reader, tick=TensorIds.tick, version=TensorIds.version, run=TensorIds.run)
    keep_address(app, TensorIds.keys, _CONTROLS)
    follow_run(app, TensorIds.run)
    app.clientside_callback(
        ClientsideFunction("mindscope", "zoomed"),
        Output(TensorIds.span, "data"),
        Input(TensorIds.curve, "relayoutData"),
        State(TensorIds.span, "data"),
        prevent_initial_call=True,
    )


def _body(reader: Reader, look: TensorView, palette: Palette) -> list[Component]:
    try:
        subject, _ = split_metric(look.metric)
    except InvalidName as error:
        return [html.Section(empty_state("No such metric", str(error), "Choose one from the list."), className="panel")]
    series = series_of(reader, look)
    if not series.total:
        return [html.Section(_nothing(reader, look), className="panel")]
    here = PageAddress("tensor", look.run.id, look.metric, look.site, look.step)
    at = look.step if look.step is not None else int(series.steps[-1])
    near = neighbours(reader, look.run.id, look.site)
    return [
        _curve_panel(reader, look, here, palette),
        _values_panel(reader, look, subject, palette),
        panel("Around it", neighbour_links(here, near)),
        panel(
            f"All statistics of the {subject} at step {at:,}",
            statistics_of(reader, look.run, look.site, subject, at, series),
        ),
    ]


def _curve_panel(reader: Reader, look: TensorView, here: PageAddress, palette: Palette) -> html.Section:
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
        body = graph(TensorIds.curve, f"{look.metric} of {display_site(look.site)} over the {look.axis}", 320, figure)
    return panel(title, body, links)


def _values_panel(reader: Reader, look: TensorView, subject: str, palette: Palette) -> html.Section:
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


def _nothing(reader: Reader, look: TensorView) -> Component:
    known = reader.sites(look.run.id, look.metric)
    title = "Nothing recorded here" if look.span is None else "Nothing recorded in these steps"
    words = (
        f"{display_site(look.site)} has no {look.metric}{nearest(look.site, known) if look.site not in known else ''}"
    )
    return empty_state(title, words.rstrip(".") + ".", recorded_instead(reader, look.run, look.site))


def _controls(reader: Reader, run: Run, here: PageAddress) -> list[Component]:
    chosen = None if here.site is None else display_site(here.site)
    sites = site_choices(reader.sites(run.id, here.metric), here.site)
    runs = [candidate for candidate in reader.runs()[:_OFFERED] if candidate.id != run.id]
    others = dmc.MultiSelect(
        id=TensorIds.others,
        data=[{"value": other.id, "label": f"{other.name or other.id} · {other.id[-4:]}"} for other in runs],
        value=list(names_of(WITH.of(here).split(","))),
        placeholder="lay over runs",
        searchable=True,
        size="xs",
        maw=360,
        miw=130,
        comboboxProps=AT_THE_RIGHT,
        **{"aria-label": "Runs laid over this one"},
    )
    return [
        choose(TensorIds.metric, "Metric", with_chosen(reader.metrics(run.id), here.metric), here.metric or None, 230),
        choose(TensorIds.site, "Site", sites, chosen, 240, placeholder="site"),
        step_input(TensorIds.step, here.step),
        labelled("over", switch(TensorIds.axis, "Axis", AXES, AXIS.of(here))),
        labelled("log", switch(TensorIds.log, "Logarithmic axes", AXES_SCALE.words, AXES_SCALE.of(here))),
        labelled("lay over", switch(TensorIds.over, "Lay over", OVERS, OVER.of(here))),
        others,
    ]


@page("tensor", title="Tensor", icon="tensor", connect=connect, keys=(AXIS, AXES_SCALE, OVER, WITH, SPAN))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out one tensor of one run."""
    run = reader.find(address.run)
    here = filled_address(reader, run, address)
    status = html.Div(run_status(run, time.time()), className="status")
    body = html.Div(graph(TensorIds.curve, "the series of the tensor", 320), id=TensorIds.body)
    return html.Div(
        [
            run_header(run, status, run_picker(TensorIds.run, reader.runs(), run)),
            html.Div(_controls(reader, run, here), className="bar"),
            dcc.Loading(body, delay_show=400),
            control_keys(TensorIds.keys, _CONTROLS),
            dcc.Store(id=TensorIds.span, data=SPAN.of(here)),
            *polling_parts(TensorIds.tick, TensorIds.version, reader.version(run.id)),
        ]
    )
