"""Conditions over a run that is over: its series, and the tensors that it dumped."""

from pathlib import Path

import numpy as np
import pytest
from mindscope.insight.stored_watchpoints import watch_dumps, watch_series
from mindscope.storage import Blobs, Block, Event, Finding, InvalidName, Layout, Run, StepRecord, Store, open_store

STATISTICS = ("l2_norm", "max")


def tensors(step: int) -> dict[str, np.ndarray]:
    """What is dumped at a step: a weight that moves by nothing but the order of its elements, one with a NaN, one that
    stays."""
    moving, bad = np.array([1.0, -2.0, 3.0], np.float32), np.full(4, float(step), np.float32)
    if step >= 4:
        bad[1:3] = np.nan
    return {"moving.weight": np.roll(moving, step), "bad.weight": bad, "still.weight": moving}


@pytest.fixture
def dumped(tmp_path: Path) -> tuple[Store, Run, Blobs]:
    store = open_store(tmp_path)
    writer = store.begin_run("dumped")
    blobs = Blobs(tmp_path / "run.tensors")
    for step in range(0, 10, 2):
        weights = tensors(step)
        events = tuple(
            Event("tensor", step, site, data={"subject": "weight", "call": 0, "digest": blobs.put(array).digest})
            for site, array in weights.items()
        )
        rows = np.array([[np.linalg.norm(array), np.max(array)] for array in weights.values()])
        layout = Layout("weight", tuple(weights), STATISTICS, ("float64",) * 2)
        writer.write([StepRecord(step, float(step), blocks=(Block(layout, rows),), events=events)])
    writer.close()
    return store, store.find_run("dumped"), blobs


def places(found: tuple[Finding, ...]) -> list[tuple[str, int]]:
    return [(finding.site, finding.step) for finding in found]


def test_an_element_that_is_no_number_is_found_where_it_appears(dumped: tuple[Store, Run, Blobs]) -> None:
    (found,) = watch_dumps(*dumped, ["nan @ *"])
    assert (found.site, found.step, found.evidence["value"]) == ("bad.weight", 4, 2.0)


def test_unchanged_means_every_element_and_not_every_statistic(dumped: tuple[Store, Run, Blobs]) -> None:
    assert places(watch_dumps(*dumped, ["unchanged weight @ [ms]* for 2 steps"])) == [("still.weight", 4)]


def test_a_bound_is_held_against_the_tensor_itself(dumped: tuple[Store, Run, Blobs]) -> None:
    found = watch_dumps(*dumped, ["weight/min @ * < -1.5", "weight/std @ still.* > 2"])
    assert places(found) == [("moving.weight", 0), ("still.weight", 0), ("still.weight", 0)]
    assert found[-1].evidence["value"] == pytest.approx(np.std([1.0, -2.0, 3.0]))


def test_series_are_asked_in_the_same_words(dumped: tuple[Store, Run, Blobs]) -> None:
    store, run, _ = dumped
    assert places(watch_series(store, run, ["weight/max @ still.* >= 3 for 3 steps"])) == [("still.weight", 4)]


def test_a_condition_that_nobody_understands_is_an_error(dumped: tuple[Store, Run, Blobs]) -> None:
    with pytest.raises(InvalidName):
        watch_dumps(*dumped, ["weight is odd"])
