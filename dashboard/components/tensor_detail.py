"""One tensor: its series, its distribution near a step, and every statistic of that step."""

from dash import dcc, html
from dash.development.base_component import Component

from ...storage import InvalidName, Run, Series, display_site, split_metric
from ..address import PageAddress
from ..figures.curve_figure import curve_figure, flags_of, points_of
from ..figures.histogram_figures import bars_of, histogram_figure
from ..formatting import number, sentence
from ..queries.reader import Reader
from ..queries.tensor_queries import broken_steps, histogram, statistics
from ..theme import Palette
from .page_parts import empty_state, graph, panel


def tensor_panel(reader: Reader, run: Run, metric: str, site: str, step: int | None, palette: Palette) -> html.Section:
    """Build the panel about one tensor; an empty state in it when nothing was recorded."""
    title = html.Span([html.Span(display_site(site), className="mono"), html.Span(metric, className="mono muted")])
    whole = dcc.Link(
        "Open this tensor", href=PageAddress("tensor", run.id, metric, site, step).href, className="button"
    )
    return panel(title, _body(reader, run, metric, site, step, palette), [whole])


def _body(reader: Reader, run: Run, metric: str, site: str, step: int | None, palette: Palette) -> list[Component]:
    try:
        subject, _ = split_metric(metric)
    except InvalidName as error:
        return [empty_state("No such metric", str(error), "Choose one from the list above the map.")]
    series = reader.series(run.id, site, metric)
    if not series.total:
        return [
            empty_state(
                "Nothing recorded here", f"{display_site(site)} has no {metric}.", recorded_instead(reader, run, site)
            )
        ]
    at = step if step is not None else int(series.steps[-1])
    mine = [finding for finding in reader.findings(run.id) if finding.site == site]
    figure = curve_figure(
        points_of(series.steps, series.values, broken=broken_steps(reader, run.id, site, metric)),
        palette,
        name=f"{metric} {site}",
        flags=flags_of(mine),
        selected=step,
    )
    curve = graph("detail-curve", f"{metric} of {display_site(site)} over the steps", 240, figure)
    both = html.Div(
        [_part("Over the steps", curve), _distribution(reader, run, site, subject, at, palette)], className="two"
    )
    title = f"All statistics of the {subject} at step {at:,}"
    return [both, _part(title, statistics_of(reader, run, site, subject, at, series))]


def _part(title: str, body: Component) -> html.Div:
    return html.Div([html.H3(title, className="part-title"), body], className="part")


def recorded_instead(reader: Reader, run: Run, site: str) -> str:
    """Say what was recorded at a site that lacks the requested metric."""
    others = [metric for metric in reader.metrics(run.id) if site in reader.sites(run.id, metric)]
    if not others:
        return "No metric was recorded at this site; choose another one."
    return f"It has {', '.join(others[:6])}{' and more' if len(others) > 6 else ''}."


def _distribution(reader: Reader, run: Run, site: str, subject: str, step: int, palette: Palette) -> html.Div:
    found = histogram(reader, run.id, site, subject, step)
    if found is None:
        note = empty_state(
            "No histogram",
            f"No histogram of the {subject} was recorded here.",
            "Turn histograms on in the monitor's configuration.",
        )
        return _part("Distribution", note)
    nearest, recorded = found
    figure = histogram_figure(bars_of(recorded), palette)
    label = f"histogram of the {subject} of {display_site(site)} at step {nearest}"
    return _part(f"Distribution at step {nearest:,}", graph("detail-histogram", label, 240, figure))


def statistics_of(
    reader: Reader, run: Run, site: str, subject: str, step: int, known: Series | None = None
) -> Component:
    """List every statistic of one tensor at one step, by name; `known` is a series of it that was read already."""
    values = statistics(reader, run.id, site, subject, step, known)
    pairs = [
        html.Div([html.Dt(sentence(name)), html.Dd(number(value), className=_tone(name, value))])
        for name, value in values.items()
    ]
    if not pairs:
        return html.P("No statistics were recorded at this step.", className="muted")
    return html.Dl(pairs, className="evidence")


def _tone(name: str, value: float) -> str:
    is_bad = value != value or (name in ("nans", "pos_infs", "neg_infs") and value > 0)
    return "bad" if is_bad else ""
