"""What a person does to runs in the table reaches the store, once the token is known."""

import pytest
from mindscope.dashboard import Settings, create_app
from mindscope.dashboard.pages.runs.run_actions import offered_fields
from mindscope.storage import open_store

from .calling import call
from .recorded import Plan, write_run

TOKEN = "correct-horse-battery-staple"


@pytest.fixture
def store():
    with open_store("memory:") as store:
        write_run(store, "one", Plan(steps=3, goes_bad=False))
        write_run(store, "two", Plan(steps=3, goes_bad=False), closes=False)
        yield store


def visitor(store, *, knows=True, is_read_only=False):
    """The application and a client that has or has not opened the address with the token."""
    app = create_app(store, Settings(token=TOKEN, is_open=True, is_read_only=is_read_only))
    client = app.server.test_client()
    client.get(f"/?token={TOKEN}" if knows else "/")
    return app, client


def row(store, name):
    return {"id": store.find_run(name).id, "name": name, "tag_line": "", "remark": ""}


def save(store, visitor, name="one", **fields):
    app, client = visitor
    said = {"overview-name": name, "overview-tags": "", "overview-remark": "", "overview-grid": [row(store, name)]}
    return call(app, "overview-said.children@", {"overview-save": 1}, {**said, **fields}, client=client)


def delete(store, visitor, name, typed):
    app, client = visitor
    state = {"overview-typed": typed, "overview-grid": [row(store, name)]}
    return call(app, "overview-grid.selectedRows", {"overview-confirm": 1}, state, client=client)


def test_name_tags_and_remark_are_kept(store):
    save(store, visitor(store), **{"overview-name": "better", "overview-tags": "lr=0.1", "overview-remark": "keep"})
    run = store.find_run("better")
    assert (dict(run.tags), run.remark) == ({"lr": 0.1}, "keep")


def test_tags_that_cannot_be_read_are_told_and_change_nothing(store):
    answer = save(store, visitor(store), **{"overview-tags": "nonsense", "overview-remark": "lost"})
    assert "must read key=value" in answer.get_data(as_text=True)
    assert store.find_run("one").remark == ""


def test_a_run_is_deleted_when_its_name_is_typed(store):
    watcher = visitor(store)
    assert "wrong name" in delete(store, watcher, "one", "on").get_data(as_text=True)
    assert len(store.runs()) == 2
    delete(store, watcher, "one", "one")
    assert [run.name for run in store.runs()] == ["two"]


def test_a_run_that_is_being_written_is_not_deleted(store):
    assert "being written" in delete(store, visitor(store), "two", "two").get_data(as_text=True)
    assert len(store.runs()) == 2


@pytest.mark.parametrize(("how", "words"), [({"knows": False}, "the token"), ({"is_read_only": True}, "--read-only")])
def test_without_the_right_nothing_is_changed(store, how, words):
    watcher = visitor(store, **how)
    for answer in (save(store, watcher, **{"overview-remark": "x"}), delete(store, watcher, "one", "one")):
        assert words in answer.get_data(as_text=True)
    assert {run.remark for run in store.runs()} == {""}
    assert len(store.runs()) == 2


def test_two_ticked_runs_can_be_compared_and_one_can_be_changed(store):
    one, two = row(store, "one"), row(store, "two")
    assert offered_fields([])[0] == {"display": "none"}
    assert offered_fields([one])[1:3] == ("one", "one")
    href = offered_fields([one, two])[5]
    assert href.startswith("/compare?")
    assert one["id"] in href
    assert two["id"] in href
