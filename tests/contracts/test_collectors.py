"""Every collector, found by the table: documented, and equal to a slow computation of the same numbers."""

import ctypes

import numpy as np
import pytest
from mindscope.probe import COLLECTORS, STATISTICS, collector
from mindscope.probe.collectors.collector import Step
from mindscope.probe.kernels import Bins, readable, table_of
from mindscope.probe.quantities.noise_scale import MicroBatches
from mindscope.probe.recording.due_collectors import Prepares


class FakeView:
    """Two parameters and one that is not there, in plain NumPy."""

    names = ("a.weight", "a.bias", "b.weight")
    shapes = ((4, 5), (4,), (7,))

    def __init__(self):
        rng = np.random.default_rng(0)
        self.weight = [rng.normal(size=shape).astype(np.float32) for shape in self.shapes]
        self.gradient = [rng.normal(size=(4, 5)).astype(np.float32), rng.normal(size=4), None]
        self.slot = [None, rng.normal(size=4).astype(np.float32), rng.normal(size=7)]

    def weights(self):
        return self._table(self.weight)

    def gradients(self):
        return self._table(self.gradient)

    def arrays(self, subject):
        held = self.weight if subject == "weight" else self.gradient
        return ((name, array) for name, array in zip(self.names, held, strict=True) if array is not None)

    def slots(self):
        return {"exp_avg": self._table(self.slot)}

    def learning_rates(self):
        return (0.1, 0.2)

    @staticmethod
    def _table(arrays):
        held = [None if one is None else readable(one) for one in arrays]
        return table_of([(0, 0, 0) if one is None else (one[0].ctypes.data, one[0].size, one[1]) for one in held], held)


def slow(arrays):
    rows = np.full((len(arrays), 10), np.nan)
    for row, array in zip(rows, arrays, strict=True):
        if array is not None:
            x = array.astype(np.float64)
            row[:] = [np.linalg.norm(x), x.mean(), x.std(), x.min(), x.max(), (x == 0).sum(), 0, 0, 0, x.size]
    return rows


def _expected_rows(name, view, before):
    return {
        "weight": {"weight": slow(view.weight)},
        "weight/before": {"weight/before": slow(view.weight)},  # at its moment the weights are those before the step
        "gradient": {"gradient": slow(view.gradient)},
        "optimizer": {"optimizer/exp_avg": slow(view.slot)},
        "update": {"update": slow([now - old for now, old in zip(view.weight, before, strict=True)])},
    }[name]


#: Those that tell of some sites, with a slow version of their last columns; those that hooks of their own fill.
SITES = {
    "weight/spectrum": lambda now, _, __: (
        np.linalg.norm(now) ** 2 / np.linalg.norm(now, 2) ** 2 if now.ndim > 1 else None
    ),
    "update/direction": lambda now, old, slot: (
        np.nan if slot is None else np.mean(np.sign(now - old) == -np.sign(slot))
    ),
    "gradient/signal": lambda *_: None,  # nothing before its window is full; tests/probe/quantities fills one
}
HOOKED = {"activation/units", "attention", "batch", "operator", "ranks", "router"}
ROWS = [name for name, entry in COLLECTORS.items() if entry.columns and entry.build and name not in SITES]
ARRAYS = [name for name, entry in COLLECTORS.items() if entry.measure]
SCALARS = {
    "learning_rate": {"learning_rate": 0.1, "learning_rate/1": 0.2},
    "loss": {"loss": 3.0},
    "loss_scale": {"loss_scale": 8.0},
    "step_seconds": {"step_seconds": 0.5},
    "gradient_norm": {"gradient_norm": 2.5},
    "clip": {"clip/norm": 4.0, "clip/coefficient": 0.25},
    "gradient_noise_scale": {"gradient_noise_scale": pytest.approx(2 / 3)},  # 8 of noise over a square of 12
}


def test_every_collector_is_of_one_kind_that_is_tested_here():
    tested = {*ROWS, *ARRAYS, *SITES, *HOOKED, *SCALARS, "histogram", "memory", "time"}
    assert set(COLLECTORS) == tested, f"add the slow version of {set(COLLECTORS) - tested} to SCALARS or SITES"


@pytest.mark.parametrize("name", COLLECTORS)
def test_a_collector_is_documented_and_says_how_it_is_made(name):
    entry = COLLECTORS[name]
    assert entry.name == name
    assert entry.doc.strip()
    assert sum((entry.measure is not None, entry.build is not None, name in HOOKED)) == 1


@pytest.mark.parametrize("name", ARRAYS)
def test_a_quantity_of_one_array_equals_the_slow_one(name):
    x = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    row = np.empty(10)
    COLLECTORS[name].measure(x.ctypes.data, x.size, 0, row.ctypes.data)
    np.testing.assert_allclose(row, slow([x])[0], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_all_parameters_equal_the_slow_ones_and_repeat(name):
    view, collect = FakeView(), COLLECTORS[name].build()
    for number in (4, 5, 9):
        before = [one.copy() for one in view.weight]
        if isinstance(collect, Prepares):
            collect.prepare(Step(view, number))
        for one in view.weight:
            one += np.float32(0.25)
        found = collect(Step(view, number))
        expected = _expected_rows(name, view, before)
        assert set(found) == set(expected)
        for subject, rows in found.items():
            np.testing.assert_allclose(rows.values[:, :10], expected[subject], rtol=1e-12, atol=1e-15)
            assert rows.present.tolist() == (~np.isnan(expected[subject][:, 0])).tolist()
            assert rows.values.shape[1] == len(COLLECTORS[name].columns)


@pytest.mark.parametrize("name", SITES)
def test_rows_of_sites_end_in_what_the_slow_version_says(name):
    view, collect = FakeView(), COLLECTORS[name].build()
    for number in range(12):
        before = [one.copy() for one in view.weight]
        if isinstance(collect, Prepares):
            collect.prepare(Step(view, number))
        for one in view.weight:
            one += np.float32(0.25)
        found = collect(Step(view, number))
    three = zip(view.names, view.weight, before, view.slot, strict=True)
    expected = {site: SITES[name](now, old, slot) for site, now, old, slot in three}
    rows = found[name].values if found else {}
    assert set(rows) == {site for site, value in expected.items() if value is not None}
    for site, row in rows.items():
        assert len(row) == len(COLLECTORS[name].columns)
        assert row[-1] == pytest.approx(expected[site], rel=1e-3, nan_ok=True)


@pytest.mark.parametrize("name", SCALARS)
def test_scalars_have_their_names_and_are_absent_where_unknown(name):
    known = Step(FakeView(), 0, loss=3.0, loss_scale=8.0, elapsed_s=0.5, gradient_norm=2.5, clip=(4.0, 1.0))
    known.micro_batches = MicroBatches({0: 8.0, 1: 2.0}, 16.0)
    assert COLLECTORS[name].build()(known) == SCALARS[name]
    unknown = COLLECTORS[name].build()(Step(FakeView(), 0))
    assert ("loss" in unknown, "loss_scale" in unknown) == (False, False)


def test_memory_is_told_at_every_tenth_due_step_and_grows_with_what_is_held():
    collect = COLLECTORS["memory"].build()
    first = collect(Step(FakeView(), 0))["memory/host_bytes"]
    held = np.ones(30_000_000)
    found = [collect(Step(FakeView(), number)) for number in range(1, 11)]
    assert found[:9] == [{}] * 9
    assert found[9]["memory/host_bytes"] >= first + 0.8 * held.nbytes


def test_histograms_count_every_value_of_the_chosen_subjects():
    step = Step(FakeView(), 0, histogram_subjects=("weight", "gradient", "activation"), bins=Bins(5))
    found = COLLECTORS["histogram"].build()(step)
    counted = {(one.subject, one.site): int(one.counts.sum()) for one in found}
    sizes = {("weight", "a.weight"): 20, ("weight", "a.bias"): 4, ("weight", "b.weight"): 7}
    assert counted == sizes | {("gradient", "a.weight"): 20, ("gradient", "a.bias"): 4}
    assert all(len(one.edges) == 6 for one in found)


def test_updates_are_told_from_the_copy_only_while_it_is_of_the_previous_step():
    view, collect = FakeView(), COLLECTORS["update"].build()
    for number in (0, 1):
        collect.prepare(Step(view, number))
        view.weight[0] += np.float32(1)
        collect(Step(view, number))
    ctypes.memset(view.weight[0].ctypes.data, 0, view.weight[0].nbytes)  # moved while nothing was due
    collect.prepare(Step(view, 5))
    assert collect(Step(view, 5))["update"].values[0, 0] == 0.0


def test_a_name_is_given_once():
    with pytest.raises(ValueError, match="'weight' is there already"):
        collector("weight", at="after_step")(lambda: None)


def test_the_statistics_stand_in_the_agreed_order():
    assert STATISTICS == ("l2_norm", "mean", "std", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size")
