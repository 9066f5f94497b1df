"""The loss around the weights of a run with the way of its training, and where its model looks."""

import time
from collections.abc import Sequence
from typing import Final, cast

import dash
import dash_mantine_components as dmc
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ...insight.saliency import Explanation
from ..address import Address, Key
from ..components import panel, run_header, run_picker, run_status
from ..components.choices import AT_THE_RIGHT, choose, labelled, switch, with_chosen
from ..components.explained import looks_part, surface_part
from ..controls import control_keys, follow_run, keep_address
from ..data import Reader
from ..data.explained import KeptSurface, explanations, holders, surfaces
from ..figures.landscape import Height
from ..ids import Shell
from ..page import page
from ..theme import palette_of

_REFRESH_MS: Final = 3000
SURFACE = Key("surface", pattern=r"[A-Za-z0-9_.:-]{1,100}", example="20261121-053312-landscape-3f2a91c4")
HEIGHT = Key("height", "log", ("log", "linear"))
SAMPLE = Key("sample")


class Id:
    """What stands on this page."""

    run: Final = "landscape-run"
    keys: Final = "landscape-keys"
    tick: Final = "landscape-tick"
    version: Final = "landscape-version"
    surface: Final = "landscape-surface"
    height: Final = "landscape-height"
    body: Final = "landscape-body"
    sample: Final = "landscape-sample"
    looks: Final = "landscape-looks"


_CONTROLS: Final = ((Id.surface, "value", SURFACE), (Id.height, "value", HEIGHT), (Id.sample, "value", SAMPLE))


def connect(app: dash.Dash, reader: Reader) -> None:
    """Draws the surface and the sample that are chosen."""

    @app.callback(
        Output(Id.body, "children"),
        Output(Id.surface, "data"),
        Input(Id.surface, "value"),
        Input(Id.height, "value"),
        Input(Id.version, "data"),
        State(Shell.scheme, "data"),
        State(Id.run, "value"),
    )
    def draw_surface(
        key: str | None, height: str, _: object, scheme: str | None, reference: str
    ) -> tuple[object, object]:
        kept = surfaces(reader, reader.find(reference))
        body = surface_part(kept, key, cast("Height", height), palette_of(scheme))
        return body, _surface_choices(kept)

    @app.callback(
        Output(Id.looks, "children"),
        Output(Id.sample, "data"),
        Input(Id.sample, "value"),
        Input(Id.version, "data"),
        State(Shell.scheme, "data"),
        State(Id.run, "value"),
    )
    def draw_looks(sample: str | None, _: object, scheme: str | None, reference: str) -> tuple[object, object]:
        by_sample = explanations(reader, reader.find(reference))
        return looks_part(by_sample, sample, palette_of(scheme)), with_chosen(list(by_sample), sample or "")

    @app.callback(
        Output(Id.version, "data"),
        Input(Id.tick, "n_intervals"),
        State(Id.run, "value"),
        State(Id.version, "data"),
        prevent_initial_call=True,
    )
    def look(_: int, reference: str, seen: list[str] | None) -> list[str]:
        now = holders(reader, reader.find(reference))
        if now == seen:
            raise PreventUpdate
        return now

    keep_address(app, Id.keys, _CONTROLS)
    follow_run(app, Id.run)


def _surface_choices(kept: Sequence[KeptSurface]) -> list[dict[str, str]]:
    return [{"value": one.key, "label": one.name} for one in kept]


def _surface_controls(kept: Sequence[KeptSurface], here: Address) -> list[Component]:
    surface = dmc.Select(
        id=Id.surface,
        data=_surface_choices(kept),
        value=SURFACE.of(here) or None,
        placeholder="the newest",
        clearable=True,
        size="xs",
        w=260,
        comboboxProps=AT_THE_RIGHT,
        **{"aria-label": "Directions of the surface"},
    )
    return [surface, labelled("height", switch(Id.height, "Height of the surface", HEIGHT.words, HEIGHT.of(here)))]


def _sample_control(by_sample: dict[str, tuple[Explanation, ...]], here: Address) -> Component:
    chosen = SAMPLE.of(here)
    return choose(
        Id.sample,
        "Sample",
        with_chosen(list(by_sample), chosen),
        chosen or None,
        140,
        clearable=True,
        placeholder="the first",
    )


@page("landscape", title="Landscape", icon="landscape", connect=connect, keys=(SURFACE, HEIGHT, SAMPLE))
def layout(reader: Reader, address: Address) -> Component:
    """The landscape of one run's loss, and what its model looks at."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), className="status")
    kept, by_sample = surfaces(reader, run), explanations(reader, run)
    return html.Div(
        [
            run_header(run, status, run_picker(Id.run, reader.runs(), run)),
            panel(
                "The loss around the weights",
                dcc.Loading(html.Div(id=Id.body), delay_show=400),
                _surface_controls(kept, address),
            ),
            panel(
                "Where the model looks",
                dcc.Loading(html.Div(id=Id.looks), delay_show=400),
                [_sample_control(by_sample, address)],
            ),
            control_keys(Id.keys, _CONTROLS),
            dcc.Store(id=Id.version, data=holders(reader, run)),
            dcc.Interval(id=Id.tick, interval=_REFRESH_MS),
        ]
    )
