"""Where the points of a series stand over time, tokens and epochs."""

import numpy as np
from mindscope.dashboard.queries.reader import Reader
from mindscope.dashboard.queries.x_axes import along, axes_of
from mindscope.storage import StepRecord, open_store


def positions(scalars, axis):
    """Step to place, for a run with two micro-steps in each of the steps 0, 1 and 4."""
    with open_store("memory:") as store:
        writer = store.begin_run("counted")
        parts = ((0, 0), (0, 1), (1, 0), (1, 1), (4, 0), (4, 1))
        writer.write([StepRecord(step, 0.0, micro, scalars={"loss": 1.0, **scalars(step)}) for step, micro in parts])
        writer.close()
        reader, run = Reader(store), store.find_run("counted")
        series = reader.series(run.id, "", "scalar/loss")
        places = along(reader, run, series, axis)
        return axes_of(reader, run), dict(zip(series.steps.tolist(), places.tolist(), strict=True))


def test_tokens_of_micro_steps_and_unrecorded_steps_are_counted():
    axes, places = positions(lambda step: {"batch/tokens": 8.0}, "tokens")
    assert axes == ("step", "time", "tokens")
    assert places == {0: 16.0, 1: 32.0, 4: 80.0}


def test_tokens_that_the_training_counted_itself_are_taken_as_they_are():
    _, places = positions(lambda step: {"tokens": 100.0 * (step + 1), "batch/tokens": 8.0}, "tokens")
    assert places == {0: 100.0, 1: 200.0, 4: 500.0}


def test_epochs_are_those_that_were_logged():
    axes, places = positions(lambda step: {"epoch": step / 2}, "epoch")
    assert axes == ("step", "time", "epoch")
    assert places == {0: 0.0, 1: 0.5, 4: 2.0}


def test_an_axis_that_was_not_recorded_falls_back_to_the_steps():
    axes, places = positions(lambda step: {}, "tokens")
    assert axes == ("step", "time")
    assert places == {0: 0.0, 1: 1.0, 4: 4.0}


def test_time_is_counted_from_the_start_of_the_run(reader, healthy_run):
    series = reader.series(healthy_run.id, "", "scalar/loss")
    assert np.array_equal(along(reader, healthy_run, series, "time"), series.times - healthy_run.created_at)
