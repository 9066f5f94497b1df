"""The steps before an anomaly are in the run as if every step had been recorded, and nothing else is."""

from contextlib import suppress

import mindscope
import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.framework.optim import Adam
from mindscope.insight import diagnose
from mindscope.probe import ConfigError, load_config, watch
from mindscope.probe.configuration.sections import FlightRecorder
from mindscope.probe.dump import Dumper
from mindscope.probe.flight_recorder import FlightTensors
from mindscope.storage import Blobs, blobs_of, open_store

from tests.storage.samples import finding

BROKEN = 37
SPARSE = {"every": 100}


def train(store, config, *, steps=60, broken=BROKEN, fail_at=None):
    """(run, losses) of a watched training whose data break at one step; `fail_at` raises."""
    net = nn.SequentialCell(nn.Dense(6, 8, key=Key(1)), nn.ReLU(), nn.Dense(8, 3, key=Key(2))).set_train()
    optimizer = Adam(net.trainable_params(), 0.01)
    rng = np.random.default_rng(0)
    losses = []
    with suppress(ArithmeticError), mindscope.watch(net, optimizer, store=store, config=config) as monitor:
        for step in range(steps):
            x = rng.normal(size=(16, 6)).astype(np.float32)
            if step == broken:
                x[0, 0] = np.inf
            if step == fail_at:
                raise ArithmeticError("the lights went out")
            optimizer.zero_grad()
            loss = ops.cross_entropy(net(Tensor(x)), Tensor(rng.integers(0, 3, 16)))
            loss.backward()
            optimizer.step()
            losses.append(loss.numpy().tobytes())
    return monitor.run.id, losses


def at_steps(store, run, site, metric):
    series = store.series(run, site, metric)
    return dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))


SERIES = [
    ("0", "activation/l2_norm"),
    ("2", "activation_grad/std"),
    ("2.weight", "gradient/max"),
    ("0.weight", "weight/mean"),
    ("0.bias", "optimizer/exp_avg/l2_norm"),
    ("0.weight", "update/l2_norm"),
    ("", "scalar/loss"),
    ("", "scalar/gradient_norm"),
]


@pytest.fixture(scope="module", params=["folder", "memory:"])
def recorded(request, tmp_path_factory):
    """(store, run at every step, sparse run with a flight recorder)."""
    place = str(tmp_path_factory.mktemp("flight")) if request.param == "folder" else request.param
    with open_store(place) as store:
        full, _ = train(store, {"every": 1})
        flight, _ = train(store, {**SPARSE, "flight_recorder": {"steps": 5}})
        yield store, full, flight


@pytest.mark.parametrize(("site", "metric"), SERIES, ids=[metric for _, metric in SERIES])
def test_the_last_steps_before_an_anomaly_stand_in_the_same_series_as_if_always_recorded(recorded, site, metric):
    store, full, flight = recorded
    every, kept = at_steps(store, full, site, metric), at_steps(store, flight, site, metric)
    assert every
    expected = [step for step in every if step in {0, *range(BROKEN - 5, BROKEN + 1)}]
    assert set(expected) <= set(kept)
    assert {step for step in kept if step < BROKEN - 5} == {0}
    np.testing.assert_array_equal([kept[step] for step in expected], [every[step] for step in expected])


def test_the_anomaly_is_found_at_its_step_and_the_event_tells_what_was_kept(recorded):
    store, _, flight = recorded
    first = next(one for one in store.findings(flight) if one.severity == "error")
    assert first.step == BROKEN
    noted = [one for one in store.events(flight, kind="flight_recorder") if one.step == BROKEN]
    assert noted[0].data["first"] == BROKEN - 5
    assert noted[0].data["records"] == 5
    assert {one.cause for one in diagnose(store, flight).root_causes} & {one.cause for one in store.findings(flight)}


def test_a_flight_recorder_leaves_the_losses_as_they_are(tmp_path):
    with open_store(tmp_path) as store:
        _, plain = train(store, {"every": 0, "subjects": {"loss": 1}}, broken=None, steps=20)
        _, watched = train(store, {**SPARSE, "flight_recorder": {"steps": 5, "tensors": ["*"]}}, broken=None, steps=20)
    assert plain == watched


def test_a_healthy_run_stores_what_its_schedule_says_alone():
    with open_store("memory:") as store:
        run, _ = train(store, {**SPARSE, "flight_recorder": {}}, broken=None, steps=30)
        assert set(at_steps(store, run, "0", "activation/l2_norm")) == {0}
        assert not store.events(run, kind="flight_recorder")


def test_an_error_of_the_training_has_the_last_steps_stored():
    with open_store("memory:") as store:
        run, _ = train(store, {**SPARSE, "flight_recorder": {"steps": 4}}, broken=None, fail_at=20)
        assert store.find_run(run).state == "failed"
        assert set(at_steps(store, run, "0", "activation/l2_norm")) == {0, 15, 16, 17, 18, 19}  # four, and the last


def test_what_is_switched_off_and_what_must_be_named_stays_out_of_it():
    config = load_config({"every": 100, "subjects": {"weight": False, "weight/spectrum": 50}, "flight_recorder": {}})
    assert config.is_in_flight("activation")
    assert not any(config.is_in_flight(name) for name in ("weight", "weight/spectrum", "histogram"))
    assert not load_config(every=100).is_in_flight("activation")


def test_whole_tensors_of_the_last_steps_are_stored_within_their_memory(tmp_path):
    tensors = {"tensors": ["2", "2.weight"], "subjects": ["input", "activation", "weight"]}
    with open_store(tmp_path) as store:
        run, _ = train(store, {**SPARSE, "flight_recorder": {"steps": 3, **tensors}})
        stored = store.events(run, kind="tensor")
        assert {step for step in (one.step for one in stored) if step <= BROKEN} == set(range(BROKEN - 3, BROKEN + 1))
        at = {(one.step, one.site, one.data["subject"]): one.data["digest"] for one in stored}
        broken = blobs_of(store.url, run).get(at[BROKEN, "2", "activation"])
        assert not np.isfinite(broken).all()
        assert (BROKEN, "2[0]", "input") in at or (BROKEN, "2", "input") in at


def test_held_tensors_take_no_more_than_their_memory_and_the_newest_stay(tmp_path):
    dumper = Dumper(load_config(dump={"when": 0}, flight_recorder={"steps": 3}).dump, Blobs(tmp_path / "blobs"))
    held = FlightTensors(FlightRecorder(tensors=("a*",), memory=1000, subjects=("weight",)), dumper)
    assert held.wants("weight", "a.0")
    assert not held.wants("weight", "b")
    assert not held.wants("activation", "a.0")
    for step in range(8):
        held.take("weight", "a.0", 0, (step, 0), np.full(100, step, np.float32))
    held.take("weight", "a.1", 0, (8, 0), np.zeros(251, np.float32))  # beyond the limit on its own
    held.forget(7)
    count, missing = held.release(100)
    assert count == 1
    assert (missing["count"], missing["steps"], missing["first"]) == (1, 1, 8)
    stored = dumper.close()
    assert [(one.step, one.site, one.kind) for one in stored] == [(7, "a.0", "tensor")]
    assert held.release(100) == (0, None)


class Rules:
    """Judges what has left the training only when somebody waits for it, as the writer does of a fast loop."""

    def __init__(self, tmp_path, memory, steps=3, is_alive=True):
        self.dumper = Dumper(
            load_config(dump={"when": 0}, flight_recorder={"steps": 3}).dump, Blobs(tmp_path / "blobs")
        )
        config = FlightRecorder(tensors=("*",), memory=memory, subjects=("weight",), steps=steps)
        self.held = FlightTensors(config, self.dumper, self.settle)
        self.waits, self.is_alive, self.step, self.broken = 0, is_alive, -1, None

    def settle(self, _):
        self.waits += 1
        for step in range(self.held._judged + 1, self.step if self.is_alive else 0):
            self.held.have_judged(step)
            if step == self.broken:
                self.released = self.held.release(step)
            else:
                self.held.forget(step - 2)
        return self.is_alive

    def train(self, steps, broken=None):
        self.broken = broken
        for self.step in range(steps):
            for site in ("a", "b"):
                self.held.take("weight", site, 0, (self.step, 0), np.full(50, self.step, np.float32))
        return sorted({one.step for one in self.dumper.close() if one.kind == "tensor"})


def test_a_fast_training_waits_for_the_rules_rather_than_to_push_out_what_they_will_ask_for(tmp_path):
    rules = Rules(tmp_path, memory=2000)
    assert rules.train(40, broken=17) == [14, 15, 16, 17]
    assert rules.released == (8, None)
    assert rules.waits < 40


def test_what_the_memory_cannot_hold_is_told_with_what_would_be_enough(tmp_path):
    rules = Rules(tmp_path, memory=900)
    kept = rules.train(40, broken=17)
    assert 17 in kept
    count, missing = rules.released
    assert (count, missing["count"]) == (2 * len(kept), 8 - 2 * len(kept))
    assert (missing["steps"], missing["first"], missing["memory"]) == (4 - len(kept), 14, 5 * 400)
    assert "900 bytes was full; 2000 would have been enough" in missing["reason"]


def test_a_writer_that_stands_still_is_waited_for_once(tmp_path):
    rules = Rules(tmp_path, memory=900, is_alive=False)
    rules.train(40)
    assert rules.waits == 1


def test_a_memory_below_one_step_is_warned_of_at_once(tmp_path, caplog):
    Rules(tmp_path, memory=300).train(4)
    assert [one.getMessage() for one in caplog.records if "of one step: step 0 has 400 bytes" in one.getMessage()]


@pytest.mark.parametrize("fail_at", [None, BROKEN + 1], ids=["finding", "error"])
def test_tensors_that_went_before_the_anomaly_are_an_event_of_the_run(tmp_path, fail_at):
    tensors = {"tensors": ["2", "2.weight"], "subjects": ["activation", "weight"], "memory": 700}
    config = {**SPARSE, "flight_recorder": {"steps": 3, "severity": "error", **tensors}}
    with open_store(tmp_path) as store:
        run, _ = train(store, config, broken=None if fail_at else BROKEN, fail_at=fail_at)
        assert BROKEN in {one.step for one in store.events(run, kind="tensor")}
        (left_out, *_) = store.events(run, kind="tensors_left_out")
        assert left_out.data["count"] > 0
        assert left_out.data["memory"] == 5 * (16 * 3 + 3 * 8) * 4


class FindsAt:
    """A listener that finds something at one step, and says so again at every later one."""

    def __init__(self, step, severity="warning"):
        self._step, self._severity = step, severity

    def begin(self, run, structure):
        pass

    def observe(self, record):
        found = finding(self._step, rule="odd", severity=self._severity, cause="dead_units")
        return [found] if record.step >= self._step else []

    def end(self):
        return []


def steps_recorded(config, listener, *, steps=40, site="0", metric="activation/l2_norm", waits=True):
    """At which steps a training was recorded whose writer keeps up with it."""
    net = nn.SequentialCell(nn.Dense(6, 8, key=Key(1)), nn.ReLU(), nn.Dense(8, 3, key=Key(2))).set_train()
    optimizer = Adam(net.trainable_params(), 0.01)
    x = Tensor(np.random.default_rng(0).normal(size=(16, 6)).astype(np.float32))
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store, config=config, listeners=[listener]) as monitor:
            for _ in range(steps):
                optimizer.zero_grad()
                (net(x) ** 2).mean().backward()
                optimizer.step()
                if waits:
                    monitor.flush()
        return sorted(at_steps(store, monitor.run.id, site, metric))


@pytest.mark.parametrize("waits", [True, False])
def test_after_an_anomaly_everything_is_recorded_for_some_steps_and_then_by_schedule(waits):
    config = {"every": 30, "flight_recorder": {"steps": 2}, "around": {"after": 6}}
    assert steps_recorded(config, FindsAt(20), waits=waits) == [0, *range(18, 27), 30]
    assert steps_recorded(config, FindsAt(20, "info"), waits=waits) == [0, 30]


def test_without_a_flight_recorder_recording_is_dense_from_when_the_training_hears_of_the_anomaly():
    config = {"every": 30, "subjects": {"loss": 1, "weight": {"every": 30, "around": 2}}, "around": {"after": 6}}
    heard = steps_recorded(config, FindsAt(20))
    assert heard == [0, *range(heard[1], heard[1] + 6), 30]
    assert heard[1] == 22
    weight = steps_recorded(config, FindsAt(20), site="0.weight", metric="weight/mean")
    assert weight == [0, *range(heard[1], heard[1] + 2), 30]


def test_micro_steps_are_kept_with_their_step():
    net = nn.SequentialCell(nn.Dense(6, 3, key=Key(1))).set_train()
    optimizer = Adam(net.trainable_params(), 0.01)
    x = Tensor(np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32))
    config = {"every": 100, "accumulation_steps": 3, "flight_recorder": {"steps": 2}}
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store, config=config, listeners=[FindsAt(3)]) as monitor:
            for step in range(15):
                if step % 3 == 0:
                    optimizer.zero_grad()
                (net(x) ** 2).mean().backward()
                if step % 3 == 2:
                    optimizer.step()
        found = [
            (record.step, record.micro_step)
            for record in store.replay(monitor.run.id)
            if any(block.layout.subject == "activation" for block in record.blocks)
        ]
    assert found == [(step, micro_step) for step in range(4) for micro_step in range(3)]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"flight_recorder": {"steps": 0}}, "flight_recorder.steps must be 1 or more, got 0"),
        ({"flight_recorder": {"memory": "much"}}, "memory must be a number of bytes, or one with a unit"),
        ({"flight_recorder": {"step": 5}}, "unknown key 'flight_recorder.step'; did you mean 'steps'"),
        ({"around": {"before": 5}}, "unknown key 'around.before'"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(wrong, words):
    with pytest.raises(ConfigError, match=words):
        load_config(wrong)
