"""A file that another process keeps to itself: every page answers, and says so or shows what it can."""

import sqlite3
import time
from contextlib import closing

import pytest
from mindscope.dashboard import create_app
from mindscope.dashboard.pages import PAGES
from mindscope.storage import open_store

from .calling import call
from .recorded import Plan, write_run

#: What a visitor waits at most for a page of a store that is locked; our choice.
_PATIENCE_S = 20.0


@pytest.fixture
def locked(tmp_path):
    """The application over a store whose only run is locked for good."""
    with open_store(str(tmp_path)) as store:
        run = write_run(store, "locked", Plan(steps=5, goes_bad=False, spike_at=None)).id
    (path,) = tmp_path.glob("*.rank0.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("PRAGMA journal_mode=DELETE")
        holder.execute("PRAGMA locking_mode=EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        with open_store(str(tmp_path)) as store:
            yield create_app(store), run


@pytest.mark.parametrize("page", ["run", "findings"])
def test_a_locked_store_is_told_within_seconds_and_never_a_server_error(locked, page):
    app, run = locked
    begin = time.monotonic()
    frame = app.server.test_client().get(f"/{page}?run={run}")
    address = {"url": f"/{page}", "scheme": "light"}
    answer = call(app, "content.children", address, {"shown": None})
    assert time.monotonic() - begin < _PATIENCE_S
    assert frame.status_code in (200, 404, 503)
    text = answer.get_data(as_text=True)
    assert answer.status_code == 200
    assert "Traceback" not in text
    assert "empty-title" in text
    assert PAGES[page].needs_run
