"""What happens when a person acts on the runs that are ticked in the table."""

from typing import Any

import dash
from dash import Input, Output, State, no_update
from dash.exceptions import PreventUpdate

from ..storage import StoreUnavailable
from .address import Address
from .components import notice
from .data import Reader, annotate, delete
from .ids import Overview as Id
from .tags import BadTags, read_tags
from .words import count, sentence

# A row of the grid is JSON: unlike values under fixed keys.
Row = dict[str, Any]
_HIDDEN = {"display": "none"}


def connect_actions(app: dash.Dash, reader: Reader) -> None:
    """The callbacks of the bar under the table."""
    _connect_choice(app)
    _connect_save(app, reader)
    _connect_delete(app, reader)


def _connect_choice(app: dash.Dash) -> None:
    @app.callback(
        Output(Id.actions, "style"),
        Output(Id.chosen, "children"),
        Output(Id.name, "value"),
        Output(Id.tags, "value"),
        Output(Id.remark, "value"),
        Output(Id.compare, "href"),
        Output(Id.compare, "style"),
        Output(Id.said, "children"),
        Input(Id.grid, "selectedRows"),
        prevent_initial_call=True,
    )
    def choose(rows: list[Row] | None) -> tuple[object, ...]:
        return offer(rows or [])


def offer(rows: list[Row]) -> tuple[object, ...]:
    """What the bar shows for the ticked rows: the fields of one run, the way to compare two."""
    if not rows:
        return _HIDDEN, *[no_update] * 6, None
    one = rows[0] if len(rows) == 1 else {"name": "", "tag_line": "", "remark": ""}
    title = str(one["name"]) if len(rows) == 1 else f"{count(len(rows), 'run')} ticked"
    is_pair = len(rows) == 2
    href = Address("compare", run=rows[0]["id"]).having(**{"with": rows[1]["id"]}).href if is_pair else "/compare"
    return (
        {},
        title,
        one["name"],
        one["tag_line"],
        one["remark"],
        href,
        {} if is_pair else _HIDDEN,
        None if len(rows) < 3 else "Tick one run to change it, two to compare them.",
    )


def _only(rows: list[Row] | None) -> Row:
    if not rows or len(rows) != 1:
        raise PreventUpdate
    return rows[0]


def _connect_save(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(Id.said, "children", allow_duplicate=True),
        Output(Id.tick, "n_intervals"),
        Input(Id.save, "n_clicks"),
        State(Id.name, "value"),
        State(Id.tags, "value"),
        State(Id.remark, "value"),
        State(Id.grid, "selectedRows"),
        prevent_initial_call=True,
    )
    def save(clicks: int | None, name: str, tags: str, remark: str, rows: list[Row] | None) -> tuple[object, object]:
        if not clicks:
            raise PreventUpdate
        run = str(_only(rows)["id"])
        try:
            annotate(reader, run, name=(name or "").strip(), tags=read_tags(tags or ""), remark=(remark or "").strip())
        except BadTags as error:
            return notice(sentence(str(error)) + "."), no_update
        return "Saved.", 0


def _connect_delete(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(Id.question, "opened"),
        Output(Id.asked, "children"),
        Output(Id.typed, "value"),
        Output(Id.typed, "error"),
        Input(Id.delete, "n_clicks"),
        State(Id.grid, "selectedRows"),
        prevent_initial_call=True,
    )
    def ask(clicks: int | None, rows: list[Row] | None) -> tuple[object, ...]:
        if not clicks:
            raise PreventUpdate
        one = _only(rows)
        return (
            True,
            f"{one['name']} · {one['id']}: everything recorded of it is lost, and nothing brings it back.",
            "",
            "",
        )

    @app.callback(
        Output(Id.question, "opened", allow_duplicate=True),
        Output(Id.typed, "error", allow_duplicate=True),
        Output(Id.grid, "selectedRows"),
        Output(Id.tick, "n_intervals", allow_duplicate=True),
        Input(Id.confirm, "n_clicks"),
        State(Id.typed, "value"),
        State(Id.grid, "selectedRows"),
        prevent_initial_call=True,
    )
    def confirm(clicks: int | None, typed: str | None, rows: list[Row] | None) -> tuple[object, ...]:
        if not clicks:
            raise PreventUpdate
        one = _only(rows)
        if (typed or "").strip() != one["name"]:
            return no_update, f"this is not its name; it is {one['name']}", no_update, no_update
        try:
            delete(reader, str(one["id"]))
        except StoreUnavailable as error:
            return no_update, str(error), no_update, no_update
        return False, "", [], 0
