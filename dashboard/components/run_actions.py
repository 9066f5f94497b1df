"""What a person can do with the runs that are ticked in the table: name, tag, remark, compare, delete."""

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from ..ids import Overview as Id


def run_actions(*, may_change: bool) -> html.Section:
    """The bar under the table, hidden while nothing is ticked; who may change nothing can still compare."""
    fields = [
        dmc.TextInput(id=Id.name, label="Name", size="xs", w=210, disabled=not may_change, **{"aria-label": "Name"}),
        dmc.TextInput(
            id=Id.tags,
            label="Tags, as key=value",
            size="xs",
            w=320,
            disabled=not may_change,
            **{"aria-label": "Tags, as key=value, separated by commas"},
        ),
        dmc.TextInput(
            id=Id.remark, label="Remark", size="xs", w=320, disabled=not may_change, **{"aria-label": "Remark"}
        ),
        dmc.Button("Save", id=Id.save, size="xs", disabled=not may_change),
        dmc.Button("Delete…", id=Id.delete, size="xs", variant="default", disabled=not may_change),
        dcc.Link("Compare the two", href="/compare", id=Id.compare, className="button"),
    ]
    closed = [] if may_change else [html.P(_CLOSED, className="muted")]
    return html.Section(
        [
            html.H2(id=Id.chosen, className="panel-title"),
            html.Div(fields, className="bar run-fields"),
            *closed,
            html.Div(id=Id.said, role="status"),
            _question(),
        ],
        id=Id.actions,
        className="panel run-actions",
        style={"display": "none"},
    )


_CLOSED = "To change something, open the address that the dashboard printed when it started: it carries the token."


def _question() -> Component:
    return dmc.Modal(
        [
            html.P(id=Id.asked),
            dmc.TextInput(
                id=Id.typed,
                label="Type the name of the run to delete it",
                size="sm",
                **{"aria-label": "Name of the run"},
            ),
            dmc.Button("Delete for good", id=Id.confirm, color="red", size="sm", mt="md"),
        ],
        id=Id.question,
        title="Delete this run?",
        opened=False,
        closeButtonProps={"aria-label": "Keep the run"},
    )
