"""The loss around the weights of a run with the path of its training, and where its model looks."""

import time
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final, cast

import dash
import dash_mantine_components as dmc
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ....insight.landscape import Surface
from ....insight.saliency import Explanation
from ...address import PageAddress, QueryKey
from ...components.form_controls import AT_THE_RIGHT, choose, labelled, switch, with_chosen
from ...components.page_parts import card, empty_state, graph, notice, panel
from ...components.run_header import run_header, run_picker, run_status
from ...components.shell import ShellIds
from ...components.tables import listing
from ...formatting import count, number, sentence
from ...page_callbacks import control_keys, follow_run, keep_address
from ...page_registry import page
from ...queries.explanation_queries import StoredSurface, explanations, surface_holders, surfaces
from ...queries.reader import Reader
from ...theme import Palette, palette_of
from .landscape_figures import (
    Height,
    curves_figure,
    cuts_figure,
    landscape_figure,
    maps_figure,
    maps_height,
    surface_heights,
)


def chosen_surface(kept: Sequence[StoredSurface], key: str | None) -> StoredSurface | None:
    """Return the surface of that name, else the newest; None where there are none."""
    return next((surface for surface in kept if surface.key == key), next(iter(kept), None))


def surface_part(kept: Sequence[StoredSurface], key: str | None, height: Height, palette: Palette) -> list[Component]:
    """Build the cards, contours and two cuts of the loss around the weights."""
    found = chosen_surface(kept, key)
    if found is None:
        return [_no_surface()]
    relief = surface_heights(found.surface, height)
    messages: list[Component] = []
    if key and found.key != key:
        messages.append(notice("The surface in this address no longer exists; the newest one is shown."))
    if height == "log" and not relief.is_log:
        messages.append(html.P("Some losses are zero or less, so heights are linear.", className="muted"))
    cuts = cuts_figure(found.surface, palette, is_log=relief.is_log)
    contours = graph(
        "landscape-contours",
        "contours of the loss over two directions, with the path of the training",
        480,
        landscape_figure(found.surface, relief, palette),
    )
    beside = graph("landscape-cuts", "the loss along each of the two directions", 480, cuts)
    return [
        *messages,
        html.Div(_cards(found.surface), className="cards"),
        html.Div([contours, beside], className="two"),
    ]


def _cards(surface: Surface) -> list[html.Div]:
    x, y, lowest = surface.lowest
    gain = surface.center_loss - lowest
    better = f"at ({number(x, 3)}, {number(y, 3)})"
    if gain > 0:
        better += f", {number(gain, 3)} below the weights"
    cards = [
        card("Loss at the weights", number(surface.center_loss), "the star"),
        card("Lowest in the plane", number(lowest), better),
    ]
    if surface.path:
        shown = sum(surface.explained)
        steps = f"steps {surface.path[0].step:,} to {surface.path[-1].step:,}"
        cards.append(card("Path", count(len(surface.path), "step"), steps))
        cards.append(card("Axes show", f"{shown:.0%}", "of the path's squared length"))
    return cards


def explanation_part(
    by_sample: Mapping[str, tuple[Explanation, ...]], sample: str | None, palette: Palette
) -> list[Component]:
    """Show the explanations of one sample: the maps, the curves of the score, and the quality of the maps."""
    if not by_sample:
        return [_no_explanation()]
    messages: list[Component] = []
    if sample and sample not in by_sample:
        messages.append(notice(f"No sample {sample[:40]!r} was explained; sample {next(iter(by_sample))} is shown."))
    found = by_sample.get(sample or "", next(iter(by_sample.values())))
    score = f"{sentence(found[0].target)} has the score {number(found[0].score)}"
    words = f"{score}; warm regions raise it, cold ones lower it."
    maps = graph(
        "landscape-maps", "the input and one map for every method", maps_height(len(found)), maps_figure(found, palette)
    )
    curves = graph("landscape-curves", "the score as pixels are removed and added", 300, curves_figure(found, palette))
    return [*messages, html.P(words, className="muted"), maps, _scores(found), curves]


def _scores(found: Sequence[Explanation]) -> Component:
    """Build the table that rates each map, the most faithful first."""
    has_marks = any(explanation.localisation is not None for explanation in found)
    columns = ("Method", "Faithfulness", "Deletion", "Insertion", "Moves by at most", *(_POINTED if has_marks else ()))
    ordered = sorted(
        found,
        key=lambda explanation: (
            -explanation.faithfulness if explanation.faithfulness == explanation.faithfulness else 2.0
        ),
    )
    rows = [
        (
            sentence(explanation.method),
            number(explanation.faithfulness, 3),
            number(explanation.deletion.area, 3),
            number(explanation.insertion.area, 3),
            _share(explanation.stability.largest),
            *(_pointed(explanation) if has_marks else ()),
        )
        for explanation in ordered
    ]
    return listing("scores of the methods", columns, rows, columns[1:])


_POINTED: Final = ("Hits the mark", "Inside the mark", "By chance")


def _pointed(explanation: Explanation) -> tuple[str, str, str]:
    if explanation.localisation is None:
        return ("–",) * 3
    where = explanation.localisation
    return "yes" if where.is_hit else "no", _share(where.energy), _share(where.chance)


def _share(value: float) -> str:
    return f"{value:.1%}" if isfinite(value) else number(value)


def _no_surface() -> Component:
    return empty_state(
        "No landscape yet",
        "Record the weights with `dump: {subjects: [weight], when: {every: 50}}`, then compute the loss around them:",
        html.Code("mindscope landscape RUN --loss model.py:loss --along path"),
    )


def _no_explanation() -> Component:
    return empty_state(
        "No explanation yet",
        "Run this command to see here where the model looks:",
        html.Code("mindscope explain RUN --logits model.py:logits --gradient model.py:gradient --data digits.npz"),
    )


_REFRESH_MS: Final = 3000
SURFACE = QueryKey("surface", pattern=r"[A-Za-z0-9_.:-]{1,100}", example="20261121-053312-landscape-3f2a91c4")
HEIGHT = QueryKey("height", "log", ("log", "linear"))
SAMPLE = QueryKey("sample")


class LandscapeIds:
    """Ids of the components of this page."""

    run: Final = "landscape-run"
    keys: Final = "landscape-keys"
    tick: Final = "landscape-tick"
    version: Final = "landscape-version"
    surface: Final = "landscape-surface"
    height: Final = "landscape-height"
    body: Final = "landscape-body"
    sample: Final = "landscape-sample"
    explanations: Final = "landscape-explanations"


_CONTROLS: Final = (
    (LandscapeIds.surface, "value", SURFACE),
    (LandscapeIds.height, "value", HEIGHT),
    (LandscapeIds.sample, "value", SAMPLE),
)


def connect(app: dash.Dash, reader: Reader) -> None:
    """Draw the chosen surface and sample."""

    @app.callback(
        Output(LandscapeIds.body, "children"),
        Output(LandscapeIds.surface, "data"),
        Input(LandscapeIds.surface, "value"),
        Input(LandscapeIds.height, "value"),
        Input(LandscapeIds.version, "data"),
        State(ShellIds.scheme, "data"),
        State(LandscapeIds.run, "value"),
    )
    def draw_surface(
        key: str | None, height: str, _: object, scheme: str | None, reference: str
    ) -> tuple[object, object]:
        kept = surfaces(reader, reader.find(reference))
        body = surface_part(kept, key, cast("Height", height), palette_of(scheme))
        return body, _surface_choices(kept)

    @app.callback(
        Output(LandscapeIds.explanations, "children"),
        Output(LandscapeIds.sample, "data"),
        Input(LandscapeIds.sample, "value"),
        Input(LandscapeIds.version, "data"),
        State(ShellIds.scheme, "data"),
        State(LandscapeIds.run, "value"),
    )
    def draw_explanations(sample: str | None, _: object, scheme: str | None, reference: str) -> tuple[object, object]:
        by_sample = explanations(reader, reader.find(reference))
        return explanation_part(by_sample, sample, palette_of(scheme)), with_chosen(list(by_sample), sample or "")

    @app.callback(
        Output(LandscapeIds.version, "data"),
        Input(LandscapeIds.tick, "n_intervals"),
        State(LandscapeIds.run, "value"),
        State(LandscapeIds.version, "data"),
        prevent_initial_call=True,
    )
    def look(_: int, reference: str, seen: list[str] | None) -> list[str]:
        now = surface_holders(reader, reader.find(reference))
        if now == seen:
            raise PreventUpdate
        return now

    keep_address(app, LandscapeIds.keys, _CONTROLS)
    follow_run(app, LandscapeIds.run)


def _surface_choices(kept: Sequence[StoredSurface]) -> list[dict[str, str]]:
    return [{"value": surface.key, "label": surface.name} for surface in kept]


def _surface_controls(kept: Sequence[StoredSurface], here: PageAddress) -> list[Component]:
    surface = dmc.Select(
        id=LandscapeIds.surface,
        data=_surface_choices(kept),
        value=SURFACE.of(here) or None,
        placeholder="the newest",
        clearable=True,
        size="xs",
        w=260,
        comboboxProps=AT_THE_RIGHT,
        **{"aria-label": "Directions of the surface"},
    )
    return [
        surface,
        labelled("height", switch(LandscapeIds.height, "Height of the surface", HEIGHT.words, HEIGHT.of(here))),
    ]


def _sample_control(by_sample: dict[str, tuple[Explanation, ...]], here: PageAddress) -> Component:
    chosen = SAMPLE.of(here)
    return choose(
        LandscapeIds.sample,
        "Sample",
        with_chosen(list(by_sample), chosen),
        chosen or None,
        140,
        clearable=True,
        placeholder="the first",
    )


@page("landscape", title="Landscape", icon="landscape", connect=connect, keys=(SURFACE, HEIGHT, SAMPLE))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out the landscape of one run's loss, and what its model looks at."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), className="status")
    kept, by_sample = surfaces(reader, run), explanations(reader, run)
    return html.Div(
        [
            run_header(run, status, run_picker(LandscapeIds.run, reader.runs(), run)),
            panel(
                "The loss around the weights",
                dcc.Loading(html.Div(id=LandscapeIds.body), delay_show=400),
                _surface_controls(kept, address),
            ),
            panel(
                "Where the model looks",
                dcc.Loading(html.Div(id=LandscapeIds.explanations), delay_show=400),
                [_sample_control(by_sample, address)],
            ),
            control_keys(LandscapeIds.keys, _CONTROLS),
            dcc.Store(id=LandscapeIds.version, data=surface_holders(reader, run)),
            dcc.Interval(id=LandscapeIds.tick, interval=_REFRESH_MS),
        ]
    )
