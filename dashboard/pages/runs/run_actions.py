"""Actions on the runs ticked in the table: rename, tag, remark, compare and delete."""

import json
from collections.abc import Mapping
from typing import Final

import dash
import dash_mantine_components as dmc
from dash import Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ....storage import Json, StoreUnavailable
from ...address import PageAddress
from ...components.page_parts import notice
from ...components.tables import GridRow
from ...formatting import count, sentence
from ...queries.reader import Reader
from ...queries.store_changes import annotate, delete
from ..scalars.overlaid_runs import MOST_RUNS, overlay_address


class RunsIds:
    """The table of runs."""

    tick: Final = "overview-tick"
    grid: Final = "overview-grid"
    counts: Final = "overview-counts"
    search: Final = "overview-search"
    where: Final = "overview-where"
    fields: Final = "overview-fields"
    note: Final = "overview-note"
    filling: Final = "overview-filling"
    body: Final = "overview-body"
    nothing: Final = "overview-nothing"
    keys: Final = "overview-keys"
    order: Final = "overview-order"
    actions: Final = "overview-actions"
    chosen: Final = "overview-chosen"
    name: Final = "overview-name"
    tags: Final = "overview-tags"
    remark: Final = "overview-remark"
    save: Final = "overview-save"
    compare: Final = "overview-compare"
    overlay: Final = "overview-overlay"
    delete: Final = "overview-delete"
    question: Final = "overview-question"
    question_text: Final = "overview-asked"
    typed: Final = "overview-typed"
    confirm: Final = "overview-confirm"
    message: Final = "overview-said"


#: First characters of JSON values that may contain a comma.
_OPENING = ('"', "[", "{")


class BadTags(ValueError):
    """A line that does not spell tags."""


def spell_tags(tags: Mapping[str, Json]) -> str:
    """Format the tags as one line; values that are not plain text are JSON."""
    return ", ".join(f"{key}={_spelled(value)}" for key, value in tags.items())


def _spelled(value: Json) -> str:
    if isinstance(value, str) and value == value.strip() and value[:1] not in _OPENING and "," not in value:
        return value if _parsed_value(value) == value else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def read_tags(line: str) -> dict[str, Json]:
    """Parse the tags in a line: numbers, `true`, `null`, lists and quoted text as JSON, all else as text.

    Raises:
        BadTags: A part of the line has no key.
    """
    tags: dict[str, Json] = {}
    for part in _split_line(line):
        key, sign, value = part.partition("=")
        if not key.strip() or not sign:
            raise BadTags(f"the tag {part.strip()!r} must read key=value; separate several by commas")
        tags[key.strip()] = _parsed_value(value.strip())
    return tags


def _split_line(line: str) -> list[str]:
    """Split the line at its commas, except inside a JSON value."""
    parts: list[str] = []
    for piece in line.split(","):
        if parts and _is_open(parts[-1]):
            parts[-1] += "," + piece
        else:
            parts.append(piece)
    return [part for part in parts if part.strip()]


def _is_open(part: str) -> bool:
    value = part.partition("=")[2].strip()
    return value[:1] in _OPENING and _parsed_value(value) == value


def _parsed_value(text: str) -> Json:
    try:
        found: Json = json.loads(text)
    except ValueError:
        return text
    return found


def run_actions(*, may_change: bool) -> html.Section:
    """Build the bar under the table, hidden while no run is ticked; visitors without the token can still compare."""
    fields = [
        dmc.TextInput(
            id=RunsIds.name, label="Name", size="xs", w=210, disabled=not may_change, **{"aria-label": "Name"}
        ),
        dmc.TextInput(
            id=RunsIds.tags,
            label="Tags, as key=value",
            size="xs",
            w=320,
            disabled=not may_change,
            **{"aria-label": "Tags, as key=value, separated by commas"},
        ),
        dmc.TextInput(
            id=RunsIds.remark, label="Remark", size="xs", w=320, disabled=not may_change, **{"aria-label": "Remark"}
        ),
        dmc.Button("Save", id=RunsIds.save, size="xs", disabled=not may_change),
        dmc.Button("Delete…", id=RunsIds.delete, size="xs", variant="default", disabled=not may_change),
        dcc.Link("Compare the two", href="/compare", id=RunsIds.compare, className="button"),
        dcc.Link("Scalars", href="/scalars", id=RunsIds.overlay, className="button"),
    ]
    closed = [] if may_change else [html.P(_CLOSED, className="muted")]
    return html.Section(
        [
            html.H2(id=RunsIds.chosen, className="panel-title"),
            html.Div(fields, className="bar run-fields"),
            *closed,
            html.Div(id=RunsIds.message, role="status"),
            _question(),
        ],
        id=RunsIds.actions,
        className="panel run-actions",
        style={"display": "none"},
    )


_CLOSED = "To make changes, open the address that the dashboard printed when it started: it contains the token."


def _question() -> Component:
    return dmc.Modal(
        [
            html.P(id=RunsIds.question_text),
            dmc.TextInput(
                id=RunsIds.typed,
                label="Type the name of the run to delete it",
                size="sm",
                **{"aria-label": "Name of the run"},
            ),
            dmc.Button("Delete for good", id=RunsIds.confirm, color="red", size="sm", mt="md"),
        ],
        id=RunsIds.question,
        title="Delete this run?",
        opened=False,
        closeButtonProps={"aria-label": "Keep the run"},
    )


_HIDDEN = {"display": "none"}


def connect_actions(app: dash.Dash, reader: Reader) -> None:
    """Connect the callbacks of the bar under the table."""
    _connect_choice(app)
    _connect_save(app, reader)
    _connect_delete(app, reader)


def _connect_choice(app: dash.Dash) -> None:
    @app.callback(
        Output(RunsIds.actions, "style"),
        Output(RunsIds.chosen, "children"),
        Output(RunsIds.name, "value"),
        Output(RunsIds.tags, "value"),
        Output(RunsIds.remark, "value"),
        Output(RunsIds.compare, "href"),
        Output(RunsIds.compare, "style"),
        Output(RunsIds.overlay, "children"),
        Output(RunsIds.overlay, "href"),
        Output(RunsIds.message, "children"),
        Input(RunsIds.grid, "selectedRows"),
        prevent_initial_call=True,
    )
    def choose(rows: list[GridRow] | None) -> tuple[object, ...]:
        return offered_fields(rows or [])


def offered_fields(rows: list[GridRow]) -> tuple[object, ...]:
    """Return what the bar shows for the ticked rows: the fields of one run, the link to compare two."""
    if not rows:
        return _HIDDEN, *[no_update] * 8, None
    row = rows[0] if len(rows) == 1 else {"name": "", "tag_line": "", "remark": ""}
    title = str(row["name"]) if len(rows) == 1 else f"{count(len(rows), 'run')} ticked"
    is_pair = len(rows) == 2
    href = PageAddress("compare", run=rows[0]["id"]).having(**{"with": rows[1]["id"]}).href if is_pair else "/compare"
    return (
        {},
        title,
        row["name"],
        row["tag_line"],
        row["remark"],
        href,
        {} if is_pair else _HIDDEN,
        "Scalars" if len(rows) == 1 else f"Scalars of the {len(rows):,} over each other",
        overlay_address([str(row["id"]) for row in rows]).href,
        None if len(rows) < 3 else _of_many(len(rows)),
    )


def _of_many(ticked: int) -> str:
    words = "Tick one run to change it, two to compare them."
    left = ticked - MOST_RUNS
    return words + (f" An address has room for {MOST_RUNS} runs: {left:,} of these are left out." if left > 0 else "")


def _only(rows: list[GridRow] | None) -> GridRow:
    if not rows or len(rows) != 1:
        raise PreventUpdate
    return rows[0]


def _connect_save(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(RunsIds.message, "children", allow_duplicate=True),
        Output(RunsIds.tick, "n_intervals"),
        Input(RunsIds.save, "n_clicks"),
        State(RunsIds.name, "value"),
        State(RunsIds.tags, "value"),
        State(RunsIds.remark, "value"),
        State(RunsIds.grid, "selectedRows"),
        prevent_initial_call=True,
    )
    def save(
        clicks: int | None, name: str, tags: str, remark: str, rows: list[GridRow] | None
    ) -> tuple[object, object]:
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
        Output(RunsIds.question, "opened"),
        Output(RunsIds.question_text, "children"),
        Output(RunsIds.typed, "value"),
        Output(RunsIds.typed, "error"),
        Input(RunsIds.delete, "n_clicks"),
        State(RunsIds.grid, "selectedRows"),
        prevent_initial_call=True,
    )
    def ask(clicks: int | None, rows: list[GridRow] | None) -> tuple[object, ...]:
        if not clicks:
            raise PreventUpdate
        row = _only(rows)
        return (
            True,
            f"{row['name']} · {row['id']}: this deletes everything recorded of it and cannot be undone.",
            "",
            "",
        )

    @app.callback(
        Output(RunsIds.question, "opened", allow_duplicate=True),
        Output(RunsIds.typed, "error", allow_duplicate=True),
        Output(RunsIds.grid, "selectedRows"),
        Output(RunsIds.tick, "n_intervals", allow_duplicate=True),
        Input(RunsIds.confirm, "n_clicks"),
        State(RunsIds.typed, "value"),
        State(RunsIds.grid, "selectedRows"),
        prevent_initial_call=True,
    )
    def confirm(clicks: int | None, typed: str | None, rows: list[GridRow] | None) -> tuple[object, ...]:
        if not clicks:
            raise PreventUpdate
        row = _only(rows)
        if (typed or "").strip() != row["name"]:
            return no_update, f"wrong name; the run is called {row['name']}", no_update, no_update
        try:
            delete(reader, str(row["id"]))
        except StoreUnavailable as error:
            return no_update, str(error), no_update, no_update
        return False, "", [], 0
