"""The page of watchpoints halts a real training, lets it go on, and sets what halts it."""

import json

import pytest
from mindscope.dashboard import Settings, create_app
from mindscope.dashboard.app import page_at
from mindscope.dashboard.queries.reader import Reader
from mindscope.dashboard.queries.watchpoint_queries import (
    hits_of,
    refusal,
    requested_watchpoints,
    running_trainings,
    training_status,
    watchpoint_statuses,
)
from mindscope.probe import watch_session as beginning
from mindscope.storage import Finding, StoreUnavailable, open_store
from mindscope.storage.control_channel import send, state_of

from tests.dashboard.calling import call
from tests.dashboard.training import Training, once

TOKEN = "correct-horse-battery-staple"


@pytest.fixture
def quick(monkeypatch):
    """A training that looks for what it is told after every step."""
    monkeypatch.setattr(beginning, "LOOK_S", -1.0)


@pytest.fixture
def store(tmp_path):
    with open_store(str(tmp_path)) as store:
        yield store


class Visitor:
    """Somebody at the page of a run."""

    def __init__(self, store, run, *, knows=True, is_read_only=False):
        self.app = create_app(store, Settings(token=TOKEN, is_open=True, is_read_only=is_read_only))
        self.client = self.app.server.test_client()
        self.client.get(f"/?token={TOKEN}" if knows else "/")
        self.run = run

    def does(self, output, pressed, **state):
        said = {f"watchpoints-{name}": value for name, value in state.items()}
        said |= {"watchpoints-run": self.run, "watchpoints-sites": said.get("watchpoints-sites", "*")}
        pressed = {f"watchpoints-{pressed}": 1}
        return call(self.app, f"watchpoints-{output}", pressed, said, client=self.client).get_data(as_text=True)

    def tells(self, pressed, **state):
        return self.does("message.children", pressed, **{"steps": 1, "subject": "weight", **state})

    def adds(self, line, deed="note"):
        return self.does("said.children", "add", when=line, deed=deed, severity="warning")

    def sees(self):
        return self.does("cards.children", "tick", seen=[])


def words(reader, query) -> str:
    content = page_at(reader, "/watchpoints", query)[2]
    return json.dumps(content, default=lambda part: getattr(part, "to_plotly_json", str)(), ensure_ascii=False)


def test_a_training_pauses_steps_shows_its_tensors_and_goes_on_as_the_page_tells_it(store, quick):
    with Training(store) as training:
        visitor = Visitor(store, training.monitor.run.id)
        assert "at the end of its step" in visitor.tells("pause")
        at = training.once(lambda state: state.state == "paused").step
        assert f"Paused after step {at:,}" in visitor.sees()
        visitor.tells("step", steps=3)
        assert training.once(lambda state: state.state == "paused" and state.step != at).step == at + 3
        visitor.tells("show", sites="weig*")
        training.once(lambda state: bool(state.tensors))
        seen = visitor.sees()
        assert "weight" in seen
        assert "float32 (2, 4)" in seen
        visitor.tells("continue")
        training.once(lambda state: state.state == "running" and state.obeyed == 4)


def test_a_condition_that_is_added_halts_the_training_at_the_step_that_meets_it(store, quick):
    with Training(store) as training:
        run = training.monitor.run
        visitor = Visitor(store, run.id)
        once(lambda: (None, store.find_run(run.id).last_step > 3))
        assert "applies it at its next step" in visitor.adds("weight/l2_norm @ weight > 0", "halt")
        state = training.once(lambda state: state.state == "paused")
        assert "weight/l2_norm @ weight > 0" in state.why
        reader = Reader(store)
        once(lambda: (None, bool(hits_of(reader, store.find_run(run.id)))))
        (standing,) = watchpoint_statuses(reader, store.find_run(run.id))
        assert (standing.is_in_force, standing.hits[0].step, standing.watchpoint.pauses) == (True, state.step, True)
        assert "in force" in words(reader, f"?run={run.id}")


def test_what_a_run_began_with_stays_when_more_is_added_and_goes_when_it_is_removed(store):
    writer = store.begin_run("live", config={"watchpoints": ["nan @ *"]})
    reader, visitor = Reader(store), Visitor(store, writer.run.id)
    visitor.adds("scalar/loss > 4")
    run = store.find_run("live")
    assert [(one.watchpoint.name, one.is_in_force) for one in watchpoint_statuses(reader, run)] == [
        ("nan @ *", True),
        ("scalar/loss > 4", False),
    ]
    name = json.dumps({"name": "nan @ *", "type": "watchpoints-remove"}, separators=(",", ":"))
    body = {
        "output": next(one for one in visitor.app.callback_map if "watchpoints-said.children@" in one),
        "outputs": {"id": "watchpoints-said", "property": "children"},
        "inputs": [[{"id": json.loads(name), "property": "n_clicks", "value": 1}]],
        "state": [{"id": "watchpoints-run", "property": "value", "value": run.id}],
        "changedPropIds": [f"{name}.n_clicks"],
    }
    body["outputs"]["property"] = body["output"].rpartition(".")[2]
    answer = visitor.client.post("/_dash-update-component", json=body)
    assert "Removed nan" in answer.get_data(as_text=True)
    assert [one["when"] for one in requested_watchpoints(reader, run)] == ["scalar/loss > 4"]
    writer.close()


@pytest.mark.parametrize(
    ("line", "told"),
    [("gradient > ", "is not understood"), ("nan @ *", "is there twice"), ("wait/l2 > 1", "no known subject")],
)
def test_a_condition_that_is_none_or_is_there_already_is_told_and_not_asked_for(store, line, told):
    writer = store.begin_run("live", config={"watchpoints": ["nan @ *"]})
    assert told in Visitor(store, writer.run.id).adds(line)
    assert store.control_channel(writer.run.id).read("set") is None
    writer.close()


@pytest.mark.parametrize(("how", "told"), [({"knows": False}, "the token"), ({"is_read_only": True}, "--read-only")])
def test_without_the_right_everything_is_shown_and_nothing_is_told(store, how, told):
    writer = store.begin_run("live")
    visitor = Visitor(store, writer.run.id, **how)
    for pressed in ("pause", "step", "continue", "show"):
        assert told in visitor.tells(pressed)
    assert told in visitor.adds("nan @ *")
    mailbox = store.control_channel(writer.run.id)
    assert (mailbox.read("command"), mailbox.read("set")) == (None, None)
    assert visitor.client.get(f"/watchpoints?run={writer.run.id}").status_code == 200
    writer.close()


def test_a_run_that_is_over_cannot_be_told_anything(store):
    writer = store.begin_run("over")
    writer.close()
    assert "only a running training" in Visitor(store, writer.run.id).tells("pause")
    assert "only a running training" in words(Reader(store), "?run=over")


def test_a_hit_leads_to_its_tensor_and_is_counted_on_its_condition(store):
    writer = store.begin_run("live", config={"watchpoints": [{"when": "nan @ *", "name": "any NaN"}]})
    hit = Finding("watchpoint/any NaN", "watchpoint", "warning", 7, 7, "a.b", "activation/nans", {"value": 3.0}, "", "")
    writer.write([], [hit])
    said = words(Reader(store), "?run=live")
    assert "1 hit" in said
    assert "/tensor?run=" in said
    assert "site=a.b&step=7" in said
    writer.close()


def test_a_mailbox_that_holds_nonsense_is_told_in_words(store):
    writer = store.begin_run("live")
    mailbox, reader = store.control_channel(writer.run.id), Reader(store)
    mailbox.post("set", {"watchpoints": ["nonsense"]})
    assert "is not understood" in words(reader, "?run=live")
    mailbox.post("state", {"nonsense": 1})
    with pytest.raises(StoreUnavailable, match=r"the state of run .* is not understood"):
        training_status(reader, store.find_run("live"))
    assert page_at(reader, "/watchpoints", "?run=live")[0] == 503
    (_, halt), *_ = running_trainings(reader)
    assert halt.state.state == "unknown"
    writer.close()


def test_what_the_training_refuses_is_told_until_it_has_taken_something_over(store, quick):
    with Training(store) as training:
        run = training.monitor.run
        store.control_channel(run.id).post("set", {"store": "elsewhere"})
        reader = Reader(store)
        once(lambda: (None, bool(refusal(reader, store.find_run(run.id)))))
        assert "refused the last request" in words(reader, f"?run={run.id}")


def test_a_command_that_was_not_obeyed_yet_is_shown_as_waiting(store):
    writer = store.begin_run("live")
    reader = Reader(store)
    assert not training_status(reader, writer.run).is_pending
    assert send(store.control_channel(writer.run.id), "pause") == 1
    assert state_of(store.control_channel(writer.run.id)).obeyed == 0
    assert "a command waits" in words(reader, "?run=live")
    writer.close()
