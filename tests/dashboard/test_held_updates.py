"""The browser can hold everything that follows a run: it is told of every interval that a page has."""

import pytest
from dash import dcc
from dash.development.base_component import Component
from mindscope.dashboard.app import create_app, page_at
from mindscope.dashboard.components.shell import ShellIds
from mindscope.dashboard.pages import PAGES


@pytest.mark.parametrize("page", PAGES)
def test_every_interval_of_a_page_can_be_held(recorded_store, reader, page):
    app = create_app(recorded_store)
    (ticks,) = [part.data for part in app.layout._traverse() if getattr(part, "id", None) == ShellIds.ticks]
    _, _, content = page_at(reader, f"/{page}", "?run=gpt-nan")
    intervals = {
        part.id for part in content._traverse() if isinstance(part, Component) and isinstance(part, dcc.Interval)
    }
    assert intervals <= set(ticks)
