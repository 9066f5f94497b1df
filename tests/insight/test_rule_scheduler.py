"""Rules that rest over a burst say and remember what they would have, had they been called about each record."""

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from mindscope.insight import RULES
from mindscope.insight.context.model_index import ModelIndex
from mindscope.insight.context.step_context import SkipWindow
from mindscope.insight.context.subject_table import SubjectRows
from mindscope.insight.engine import Engine
from mindscope.insight.recording import chain
from mindscope.insight.running_statistics import count_before_first
from mindscope.storage import Block, Event, Layout, OptimizerInfo, StepRecord

NAMES = ("one", "relu", "two", "three", "four", "five")
WEIGHTS = tuple(f"{name}.weight" for name in NAMES if name != "relu")
STATISTICS = ("l2_norm", "mean", "std", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size")
GROUPS = {
    "Adam": {"lr": 1e-3, "betas": [0.9, 0.999], "weight_decay": 0.0},
    "AdamW": {"lr": 1e-3, "betas": [0.9, 0.999], "weight_decay": 0.1},
    "SGD": {"lr": 1e-3, "momentum": 0.9, "weight_decay": 0.0, "nesterov": False, "dampening": 0.0},
}
SLOT = {"Adam": "exp_avg_sq", "AdamW": "exp_avg_sq", "SGD": "momentum_buffer"}


def model(kind):
    layers = chain(*(f"{name}:{'ReLU' if name == 'relu' else 'Dense'}" for name in NAMES))
    return replace(layers, optimizers=(OptimizerInfo(kind, (GROUPS[kind],)),))


def layout(subject, sites):
    names = (*STATISTICS, "ratio_to_weight") if subject == "update" else STATISTICS
    return Layout(subject, sites, names, ("float64",) * len(names))


class Training:
    """Records of a made up training whose optimizer keeps to its recurrence; accidents come by chance."""

    def __init__(self, kind, seed, *, accidents, every=1):
        self.random, self.kind, self.accidents, self.every = np.random.default_rng(seed), kind, accidents, every
        self.state, self.weights = np.full(len(WEIGHTS), 0.01), np.full(len(WEIGHTS), 1.0)
        subjects = ("activation", "activation_grad", "gradient", "weight", "update", f"optimizer/{SLOT[kind]}")
        self.layouts = {
            subject: layout(subject, NAMES if subject.startswith("activation") else WEIGHTS)
            for subject in (*subjects, "batch")
        } | {"batch": layout("batch", ("",)), "batch/eval": layout("batch/eval", ("",))}

    def _values(self, subject):
        made = self.layouts[subject]
        values = np.abs(self.random.normal(1.0, 0.1, (len(made.sites), len(made.statistics))))
        values[:, 1], values[:, 3], values[:, 5:9], values[:, 9] = 0.01, -0.3, 0.0, 64.0
        values[:, 10:] = 1e-3
        return values

    def record(self, step):
        gradient, update, weight, slot = (
            self._values(subject) for subject in ("gradient", "update", "weight", f"optimizer/{SLOT[self.kind]}")
        )
        self.weights = self.weights * 0.999
        weight[:, 0], update[:, 3:5] = self.weights, (-5e-4, 5e-4)
        gradient[:, 1] = self.random.normal(size=len(gradient)) * 0.01
        if self.kind == "SGD":
            self.state = 0.9 * self.state + gradient[:, 1]
        else:
            self.state = 0.999 * self.state + 0.001 * gradient[:, 0] ** 2 / 64
        slot[:, 1] = self.state
        made = {"gradient": gradient, "update": update, "weight": weight, f"optimizer/{SLOT[self.kind]}": slot}
        for subject in ("activation", "activation_grad", "batch"):
            made[subject] = self._values(subject)
        if step % 7 == 6:
            made["batch/eval"] = self._values("batch/eval")
        scalars = {"loss": 2.0 * 0.99**step + 0.01 * self.random.normal(), "learning_rate": 1e-3, "step_seconds": 0.01}
        if step % 10 == 0:
            scalars |= {"time/data_seconds": 0.02 * self.random.random(), "time/forward_seconds": 0.01}
        record = StepRecord(step * self.every, float(step), scalars=scalars, blocks=())
        return self._accident(record, made) if self.random.random() < self.accidents else self._whole(record, made)

    def _whole(self, record, made):
        return replace(record, blocks=tuple(Block(self.layouts[subject], values) for subject, values in made.items()))

    def _accident(self, record, made):
        subject = str(self.random.choice(list(made)))
        values, row = made[subject], int(self.random.integers(len(made[subject])))
        match self.random.integers(8):
            case 0:
                values[row, int(self.random.integers(6, 9))] = 1.0
            case 1:
                values[row, 0:5] = 0.0
            case 2:
                values[row, 0:5] *= 1e3
            case 3:
                record = replace(record, skipped=True)
            case 4:
                record = replace(record, scalars=dict(record.scalars) | {"loss": float("nan")})
            case 5:
                del made[subject]
            case 6:
                record = replace(record, events=(Event("resume_point", record.step, data={"parameters": {}}),))
            case 7:
                values[row, 5], values[row, 4] = 64.0, -1.0
        return self._whole(record, made)


def remembered(value):
    """Plain values of all that a memory holds, whatever its classes."""
    if isinstance(value, dict):
        return {repr(key): remembered(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple | deque):
        return [remembered(item) for item in value]
    if isinstance(value, ModelIndex | SubjectRows):
        return type(value).__name__
    if isinstance(value, np.ndarray):
        return value.tolist()
    names = [
        *getattr(value, "__dict__", ()),
        *(name for kind in type(value).__mro__ for name in vars(kind).get("__slots__", ())),
    ]
    return {name: remembered(getattr(value, name)) for name in names} or repr(value)


def run(structure, records, lengths):
    engine = Engine(RULES)
    engine.learn_structure(structure)
    found, at = [], 0
    while at < len(records):
        size = next(lengths)
        few = records[at : at + size]
        if size > 1:
            engine.foresee(few)
        found += [engine.observe(record) for record in few]
        at += size
    engine.foresee(())
    found.append(engine.observe(StepRecord(10**6, 0.0)))  # closes all skip windows
    return engine, found


@pytest.mark.parametrize("accidents", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("kind", GROUPS)
@pytest.mark.parametrize("seed", range(2))
def test_any_training_in_bursts_of_any_length_is_judged_as_record_by_record(kind, seed, every, accidents, caplog):
    training = Training(kind, seed, accidents=accidents, every=every)
    records = [training.record(step) for step in range(150)]
    random = np.random.default_rng(seed)
    alone, expected = run(model(kind), records, iter(lambda: 1, None))
    burst, found = run(model(kind), records, iter(lambda: int(random.integers(1, 40)), None))
    assert repr(found) == repr(expected)
    assert (burst.run(), burst.not_run()) == (alone.run(), alone.not_run())
    assert (burst.batches, burst.records) == (alone.batches, alone.records)
    for name, memory in alone._memories.items():
        assert repr(remembered(burst._memories[name])) == repr(remembered(memory)), name
    assert repr(remembered(burst._bound)) == repr(remembered(alone._bound))
    assert not caplog.records


def test_records_that_come_otherwise_than_foreseen_are_judged_as_they_come():
    training = Training("Adam", 0, accidents=0.0)
    foreseen = [training.record(step) for step in range(60)]
    event = Event("monitor_fault", 30, "one", data={"error": "x"})
    shown = [*foreseen[:30], replace(foreseen[30], events=(event,)), *foreseen[33:]]
    alone, burst = Engine(RULES), Engine(RULES)
    for engine in (alone, burst):
        engine.learn_structure(model("Adam"))
    burst.foresee(foreseen)
    for record in shown:
        if record.step == 45:
            alone.learn_structure(model("AdamW"))
            burst.learn_structure(model("AdamW"))
        assert repr(burst.observe(record)) == repr(alone.observe(record))
    burst.foresee(())
    for engine in (alone, burst):
        engine.observe(StepRecord(10**6, 0.0))
    assert repr(remembered(burst._memories)) == repr(remembered(alone._memories))


def test_a_rule_is_not_called_inside_its_skip_window_and_fails_alone(caplog):
    called, learnt = [], []

    def check(context, memory):
        called.append(context.step)
        return ()

    def skip_window(lookahead, memory):
        return SkipWindow(5, learnt.append)

    def fails(lookahead, memory):
        raise ValueError("no such thing")

    rule = replace(RULES["loss-spike"], name="skips", check=check, skip_window=skip_window)
    other = replace(RULES["loss-spike"], name="fails", check=check, skip_window=fails)
    engine = Engine({"skips": rule})
    training = Training("Adam", 0, accidents=0.0)
    records = [training.record(step) for step in range(15)]
    engine.foresee(records)
    for record in records:
        engine.observe(record)
    assert called == [0, 6, 12, 13, 14]  # the first comes with the structure, and the last two are not worth a look
    assert learnt == [5, 5]
    engine = Engine({"fails": other})
    called.clear()
    engine.foresee(records)
    for record in records:
        engine.observe(record)
    assert called == list(range(15))
    assert not engine.findings
    assert "failed to find its skip window" in caplog.text


@pytest.mark.parametrize("found", [[], [[False, False]], [[False, True], [True, False]], [[False], [False], [True]]])
def test_the_first_is_the_number_of_records_before_it(found):
    array = np.array(found, dtype=bool).reshape(len(found), len(found[0]) if found else 2)
    expected = next((at for at, row in enumerate(found) if any(row)), len(found))
    assert count_before_first(array) == count_before_first(array.any(axis=1)) == expected
