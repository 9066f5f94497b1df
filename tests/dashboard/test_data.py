"""Reads of the store: cached by version, bounded, and never a way into its files."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from mindscope.dashboard.pages.runs.run_rows import spark
from mindscope.dashboard.queries.answer_cache import MOST_BYTES
from mindscope.dashboard.queries.evaluations import outcomes
from mindscope.dashboard.queries.reader import Reader
from mindscope.dashboard.queries.tensor_queries import broken_steps, histogram, statistics
from mindscope.storage import RunNotFound, StepRecord, open_store

from .recorded import BAD_SITE, BAD_STEP, module_sites, write_run


class Counting:
    """A store that counts how often each of its methods is called."""

    def __init__(self, store):
        self._store, self.calls = store, {}

    def __getattr__(self, name):
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def counted(*args, **kwargs):
            self.calls[name] = self.calls.get(name, 0) + 1
            return found(*args, **kwargs)

        return counted


def test_a_second_read_of_an_unchanged_run_asks_the_store_for_its_version_only(recorded_store, bad_run):
    store = Counting(recorded_store)
    reader = Reader(store)
    first = reader.matrix(bad_run.id, "activation/l2_norm")
    before = dict(store.calls)
    assert reader.matrix(bad_run.id, "activation/l2_norm") is first
    assert {name for name in store.calls if store.calls[name] != before.get(name)} == {"version"}


def test_a_read_after_a_write_sees_what_was_written():
    with open_store("memory:") as store:
        writer = store.begin_run("r")
        reader = Reader(store)
        writer.write([StepRecord(0, 0.0, scalars={"loss": 1.0})])
        assert reader.scalar(writer.run.id, "loss").values.tolist() == [1.0]
        writer.write([StepRecord(1, 0.0, scalars={"loss": 2.0})])
        assert reader.scalar(writer.run.id, "loss").values.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("run", ["../../etc/passwd", "gpt-nan", "", "no such run"])
def test_only_whole_ids_of_known_runs_are_read(reader, run):
    with pytest.raises(RunNotFound):
        reader.version(run)


def test_metrics_and_scalars_are_told_apart(reader, bad_run):
    assert "activation/l2_norm" in reader.metrics(bad_run.id)
    assert reader.scalars(bad_run.id) == ("learning_rate", "loss", "step_seconds")


def test_sites_come_in_model_order_and_an_unknown_metric_has_none(reader, bad_run):
    assert reader.sites(bad_run.id, "activation/l2_norm") == module_sites()
    assert reader.sites(bad_run.id, "nonsense") == ()


def test_a_matrix_has_no_more_columns_than_a_screen(reader, bad_run):
    matrix = reader.matrix(bad_run.id, "activation/l2_norm")
    assert matrix.low.shape[0] == len(module_sites())
    assert matrix.low.shape[1] <= 400


def test_all_statistics_of_a_step_come_in_the_order_of_the_layout(reader, bad_run):
    values = statistics(reader, bad_run.id, BAD_SITE, "activation", BAD_STEP)
    assert list(values)[:3] == ["l2_norm", "mean", "std"]
    assert values["nans"] == 3


def test_the_histogram_nearest_to_the_step_is_found(reader, bad_run):
    found = histogram(reader, bad_run.id, BAD_SITE, "activation", 187)
    assert found is not None
    assert found[0] == 180
    assert histogram(reader, bad_run.id, "embed", "activation", 187) is None


def test_steps_with_nan_elements_are_known_for_every_metric_of_the_tensor(reader, bad_run):
    broken = broken_steps(reader, bad_run.id, BAD_SITE, "activation/l2_norm")
    assert broken[0] == BAD_STEP
    assert broken_steps(reader, bad_run.id, "embed", "activation/l2_norm") == ()


def test_evaluations_of_a_run_are_found_by_their_parent(reader, bad_run, healthy_run):
    ((evaluation, found),) = outcomes(reader, bad_run.id)
    assert evaluation.parent == bad_run.id
    assert len(found) == 12
    assert outcomes(reader, healthy_run.id) == ()


def test_a_spark_is_short_and_shows_what_was_not_finite(reader, bad_run):
    points = spark(reader, bad_run)
    assert len(points) <= 200
    assert None in points
    assert np.isclose(max(value for value in points if value is not None), 4.2, atol=0.3)


def test_the_cache_stays_small():
    with open_store("memory:") as store:
        run = write_run(store)
        reader = Reader(store)
        for first in range(700):
            reader.scalar(run.id, "loss", first=first)
        assert reader._kept.bytes <= MOST_BYTES


def test_what_is_kept_is_read_once_for_each_key(recorded_store):
    reader, asked = Reader(recorded_store), []
    for key in ("a", "b", "a"):
        assert reader.kept(key, lambda store: (asked.append(store), store.url)[1]) == recorded_store.url
    assert asked == [recorded_store, recorded_store]


def test_what_many_ask_at_once_is_made_once_and_again_after_its_time(recorded_store):
    reader, made = Reader(recorded_store), []

    def make():
        time.sleep(0.05)
        made.append(None)
        return len(made)

    with ThreadPoolExecutor(8) as visitors:
        answers = list(visitors.map(lambda _: reader.shared("key", make, for_s=60), range(8)))
    assert (answers, made) == ([1] * 8, [None])
    assert reader.shared("key", make, for_s=0) == 2
    assert reader.shared("other", make, for_s=60) == 3


def test_one_who_fails_leaves_the_others_their_turn(recorded_store):
    reader = Reader(recorded_store)
    with pytest.raises(ZeroDivisionError):
        reader.shared("key", lambda: 1 / 0, for_s=60)
    assert reader.shared("key", lambda: "made", for_s=60) == "made"
