"""Stores that go away or come from the future while a dashboard is open: a page that says so, never a 500."""

import shutil
import sqlite3
from contextlib import closing

import pytest
from mindscope.dashboard import create_app
from mindscope.dashboard.pages import PAGES
from mindscope.storage import StoreDamaged, migrate, open_store

from tests.dashboard.calling import call
from tests.dashboard.recorded import Plan, write_run


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "runs"
    with open_store(str(path)) as store:
        for name in ("first", "second"):
            write_run(store, name, Plan(steps=10, goes_bad=False, spike_at=None))
    return path


def _content(app, page, query):
    """What the browser asks for after the frame: the page of an address, as text."""
    asked = {"url": f"/{page}", "scheme": "light"}
    answer = call(app, "content.children", asked, {"shown": None, "url": f"/{page}"})
    return answer.status_code, answer.get_data(as_text=True)


def _pages(app, query=""):
    """Status and text of every page over HTTP, the frame first and then what stands in it."""
    client = app.server.test_client()
    for page in PAGES:
        frame = client.get(f"/{page}{query}")
        status, text = _content(app, page, query)
        yield page, frame.status_code, status, text


def test_a_folder_that_is_deleted_is_told_and_never_a_server_error(folder):
    with open_store(str(folder)) as store:
        app = create_app(store)
        shutil.rmtree(folder)
        for page, frame, status, text in _pages(app):
            assert frame in (200, 404, 503), page
            assert status == 200, page
            assert "Traceback" not in text, page


def test_a_run_of_a_newer_schema_hides_no_other_and_is_told_with_its_number(folder):
    newer = sorted(folder.glob("*second*.db"))[0]
    with closing(sqlite3.connect(newer)) as database, database:
        database.execute("UPDATE meta SET value = '9999' WHERE key = 'schema_version'")
    with open_store(str(folder)) as store:
        app = create_app(store)
        for page, frame, status, text in _pages(app, "?run=first"):
            assert (frame, status) == (200, 200), page
            assert "9999" not in text, page
        asked = {"live-maps": ["activation/l2_norm"], "live-view": "raw", "live-beat": 0}
        state = {"live-run": newer.name.partition(".rank")[0], "scheme": "light"}
        answer = call(app, "live-heat.figure", asked, state)
        assert answer.status_code in (200, 204)
        assert "9999" in answer.get_data(as_text=True)


def test_a_run_that_is_deleted_while_it_is_looked_at_is_told(folder):
    with open_store(str(folder)) as store:
        app = create_app(store)
        run = store.find_run("second").id
        state = {"live-run": run, "scheme": "light"}
        asked = {"live-maps": ["activation/l2_norm"], "live-view": "raw", "live-beat": 0}
        assert "heatmap" in call(app, "live-heat.figure", asked, state).get_data(as_text=True)
        store.delete_run(run)
        answer = call(app, "live-heat.figure", {**asked, "live-beat": 1}, state)
        assert answer.status_code in (200, 204)
        assert "no longer in the store" in answer.get_data(as_text=True)


@pytest.mark.parametrize("version", ["", "three", "-1", "0", "1e3", "9" * 400, "٣", "2 "])
def test_a_schema_version_that_is_none_is_damage_and_hides_no_other_run(folder, version):
    damaged = sorted(folder.glob("*second*.db"))[0]
    with closing(sqlite3.connect(damaged)) as database, database:
        database.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", (version,))
    with open_store(str(damaged)) as store, pytest.raises(StoreDamaged, match="must have a schema version from 1 on"):
        store.find_run("latest")
    with pytest.raises(StoreDamaged, match="restore it from a copy or delete it"):
        migrate(damaged)
    with open_store(str(folder)) as store:
        assert [run.name for run in store.runs()] == ["first"]
