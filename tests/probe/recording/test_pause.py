"""A training that pauses behind a step: readers see the step meanwhile, and nothing else comes out of it."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from mindscope import watch
from mindscope.insight import diagnose
from mindscope.probe.configuration.config import Config
from mindscope.probe.device_results import DeviceResults
from mindscope.probe.recording.recorder import Recorder
from mindscope.storage import Block, Layout, StepRecord, Store, open_store

torch = pytest.importorskip("torch")

from mindscope.probe.adapters.torch.torch_parameters import TorchView  # noqa: E402  torch is there


def steps(model, optimizer, count: int, *, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    for _ in range(count):
        x, y = torch.randn(8, 6, generator=random), torch.randint(0, 3, (8,), generator=random)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def evaluated(model) -> None:
    model.eval()
    with torch.no_grad():
        model(torch.zeros(2, 6))
    model.train()


def begun(store: Store, config=None):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return model, optimizer, watch(model, optimizer, store=store, config=config)


#: Left out where a thread was not scheduled at all between two looks at its clock.
_MAY_BE_IDLE = {"time/writer_seconds"}


def same(one: Store, other: Store) -> bool:
    records = [list(store.replay(store.find_run("latest").id)) for store in (one, other)]
    assert [record.step for record in records[0]] == [record.step for record in records[1]]
    for first, second in zip(*records, strict=True):
        assert [block.layout for block in first.blocks] == [block.layout for block in second.blocks]
        for mine, theirs in zip(first.blocks, second.blocks, strict=True):
            np.testing.assert_array_equal(mine.values, theirs.values)
        assert set(first.scalars) - _MAY_BE_IDLE == set(second.scalars) - _MAY_BE_IDLE
        assert [event.kind for event in first.events] == [event.kind for event in second.events]
    return True


@pytest.fixture(params=["memory:", "runs"])
def places(request, tmp_path):
    """Two empty stores."""
    url = request.param
    names = (url, url) if url == "memory:" else (str(tmp_path / "one"), str(tmp_path / "two"))
    with open_store(names[0]) as one, open_store(names[1]) as two:
        yield one, two


def test_the_newest_step_is_visible_in_a_pause_and_what_is_logged_behind_it_comes_to_it(places, eventually):
    store, control = places
    for place, pauses in ((store, True), (control, False)):
        model, optimizer, monitor = begun(place)
        with monitor:
            steps(model, optimizer, 5, seed=1)
            if pauses:
                eventually(lambda: store.find_run("latest").last_step == 4)
                shown = list(store.replay(monitor.run.id))[-1]
                assert {block.layout.subject for block in shown.blocks} >= {"activation", "gradient", "weight"}
                assert "accuracy" not in shown.scalars
            evaluated(model)
            monitor.log(accuracy=0.5, loss=7.0)
            if pauses:
                run = monitor.run.id
                eventually(lambda run=run: store.series(run, "", "scalar/accuracy").total == 1)
            steps(model, optimizer, 5, seed=2)
        record = list(place.replay(monitor.run.id))[4]
        assert (record.scalars["accuracy"], record.scalars["loss"]) == (0.5, 7.0)
        assert place.series(monitor.run.id, "", "scalar/loss").steps.tolist() == list(range(10))
        assert place.find_run("latest").state == "finished"
    assert same(store, control)


def test_a_diagnosis_of_a_run_that_paused_is_the_one_that_was_made_under_way(places, eventually):
    store, _ = places
    model, optimizer, monitor = begun(store)
    with monitor:
        steps(model, optimizer, 30, seed=1)
        with torch.no_grad():
            model[0].weight[0, 0] = float("nan")
        steps(model, optimizer, 1, seed=2)
        eventually(lambda: store.find_run("latest").last_step == 30)
        monitor.log(accuracy=float("nan"))
        steps(model, optimizer, 5, seed=3)
    live = {one.key: one for one in store.findings(monitor.run.id)}
    assert live
    assert {one.key: one for one in diagnose(store, monitor.run.id).findings} == live


def test_a_run_that_is_closed_in_a_pause_has_its_last_step_once(places, eventually):
    store, control = places
    for place in places:
        model, optimizer, monitor = begun(place)
        with monitor:
            steps(model, optimizer, 3, seed=1)
            if place is store:
                eventually(lambda: store.find_run("latest").last_step == 2)
            monitor.log(accuracy=0.5)
    assert same(store, control)


def test_a_step_at_which_nothing_is_due_is_visible_as_well_and_leaves_nothing_when_it_is_over(places, eventually):
    store, _ = places
    model, optimizer, monitor = begun(store, {"every": 50})
    with monitor:
        steps(model, optimizer, 51, seed=1)
        eventually(lambda: store.find_run("latest").last_step == 50)
        steps(model, optimizer, 3, seed=2)
        eventually(lambda: store.find_run("latest").last_step == 53)
        steps(model, optimizer, 50, seed=3)
    records = list(store.replay(monitor.run.id))
    assert {one.step for one in records} >= {0, 50, 100, 103}
    assert [one.step for one in records if one.blocks] == [0, 50, 100]


class Late:
    """A device whose numbers come when they are let go."""

    def __init__(self) -> None:
        self.is_open = False

    def add(self, tensor, **_options):
        return SimpleNamespace(row=None, counts=None)

    def launch(self):
        return (self,)

    def is_ready(self) -> bool:
        return self.is_open

    def take(self) -> None:
        pass


def test_records_leave_in_order_when_a_device_has_brought_their_numbers():
    sent: list[StepRecord] = []
    device_results = DeviceResults(sent.append, lambda name, error: None)
    device_results.device = Late()
    block = Block(Layout("weight", ("a",), ("norm",), ("float32",)), np.ones((1, 1)))
    first, second, third = (StepRecord(step, 0.0, blocks=(block,), scalars={"rate": 1.0}) for step in (0, 1, 2))
    device_results.send(first, device_results.close(None))
    assert sent == [first]
    device_results.request_value(object())
    device_results.send(second, device_results.close(None))
    device_results.send(third, device_results.close(None))
    assert sent == [first]
    device_results.drain(wait=True)
    assert [record.step for record in sent] == [0, 1, 2]


def test_of_a_record_that_waits_for_a_device_the_rest_is_known():
    recorder = Recorder(Config(), lambda record: None)
    view = TorchView(lambda site, reason: pytest.fail(f"{site}: {reason}"))
    view.add(torch.nn.Linear(3, 2).named_parameters())
    recorder.device_results.device = Late()
    recorder.device_results.request_value(object())
    recorder.log({"rate": 1.0})
    recorder.before_step(view)
    recorder.after_step(view)
    known = recorder.held()
    assert (known.step, known.blocks, known.scalars["rate"]) == (0, (), 1.0)
    recorder.device_results.device.is_open = True
    recorder.flush(wait=True)
    assert recorder.held() is None


_KILLED = """
import sys, time
from tests.probe.recording.test_pause import begun, steps
from mindscope.storage import open_store
model, optimizer, monitor = begun(open_store(sys.argv[1]))
steps(model, optimizer, 3, seed=1)
print("paused", flush=True)
time.sleep(600)
"""


def test_a_run_that_is_killed_in_a_pause_has_its_last_step(tmp_path, eventually):
    child = subprocess.Popen([sys.executable, "-c", _KILLED, str(tmp_path / "runs")], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "paused\n"
    with open_store(tmp_path / "runs") as store:
        eventually(lambda: store.find_run("latest").last_step == 2)
        child.kill()
        child.communicate()
        run = store.find_run("latest")
        assert (run.state, [one.step for one in store.replay(run.id)]) == ("crashed", [0, 1, 2])
