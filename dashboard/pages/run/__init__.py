"""One run, live: what is wrong first, the curve, layer x step, and the tensor behind any cell."""

import time
from typing import Final

import dash
import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from ...address import Address
from ...components import headline_cards, run_header, run_picker, run_status
from ...controls import control_keys, follow_run, keep_address
from ...data import Reader
from ...headline import headline_of
from ...ids import Live as Id
from ...live import cursor_now, to_json
from ...page import page
from ...places import place_of
from ...spans import SPAN
from ...theme import SCHEME_SHOWN, palette_of
from .following import connect_following, offered
from .keys import CONTROLS, MAPS, SCALAR, SCALE, VIEW
from .panels import curve_panel, evaluation, heat_panel, tensor_bar
from .pictures import connect_browser, connect_curve, connect_detail, connect_heat

_REFRESH_MS: Final = 1000


def connect(app: dash.Dash, reader: Reader) -> None:
    """The callbacks of the page: one look per tick, three pictures, and the address kept in step with the controls."""
    connect_following(app, reader)
    connect_curve(app, reader)
    connect_heat(app, reader)
    connect_detail(app, reader)
    connect_browser(app)
    keep_address(app, Id.keys, CONTROLS)
    follow_run(app, Id.run)


@page("run", title="Live run", icon="run", connect=connect, keys=(SCALAR, SCALE, MAPS, VIEW, SPAN))
def layout(reader: Reader, address: Address) -> Component:
    """The page of one run."""
    run = reader.find(address.run)
    if run.kind == "evaluation":
        return evaluation(reader, run)
    seen = cursor_now(reader, run.id, run.last_step)
    here = place_of(reader, run, address)
    now = time.time()
    status = html.Div(run_status(run, now), id=Id.status, className="status")
    follow = dmc.Switch(id=Id.follow, checked=True, label="Follow", size="xs", labelPosition="left", style=offered(run))
    findings = reader.findings(run.id)
    return html.Div(
        [
            run_header(run, status, run_picker(Id.run, reader.runs(), run), [follow]),
            html.Div(
                headline_cards(run, headline_of(reader, run), len(findings)),
                id=Id.cards,
                className="cards",
            ),
            curve_panel(reader, run, here, palette_of(SCHEME_SHOWN.get())),
            heat_panel(reader, run, here),
            tensor_bar(reader, run, here),
            html.Div(id=Id.detail, className="detail"),
            control_keys(Id.keys, CONTROLS),
            dcc.Store(id=Id.span, data=SPAN.of(here)),
            dcc.Store(id=Id.heat_name, data=Id.heat),
            dcc.Store(id=Id.cursor, data=to_json(seen)),
            dcc.Store(id=Id.tail),
            dcc.Store(id=Id.redraw, data=0),
            dcc.Store(id=Id.beat, data=0),
            dcc.Interval(id=Id.tick, interval=_REFRESH_MS),
        ]
    )
