"""Retention forgets old detail and nothing that matters."""

import numpy as np
import pytest
from mindscope.storage import MemoryStore, Retention, StoreError, open_store

from tests.storage.samples import finding, layout, walk


@pytest.fixture(scope="module")
def thinned(tmp_path_factory):
    """A long run whose old detail was forgotten, and the same run in memory."""
    folder = tmp_path_factory.mktemp("runs")
    records = walk(9000, layout(18))
    memory = MemoryStore()
    whole = memory.begin_run("long")
    with open_store(folder, retention=Retention(full=600, fine=4200)) as store:
        writer = store.begin_run("long", run_id=whole.run.id)
        for one in (writer, whole):
            for at in range(0, len(records), 300):
                one.write(records[at : at + 300], [finding(1500)] if at == 1500 else [])
                while one.maintain():
                    pass
            one.close()
        yield store, memory, whole.run.id


def test_extremes_counts_and_non_finite_values_survive(thinned) -> None:
    store, memory, run = thinned
    for site in ("layer.1", "layer.2", "layer.9"):
        whole = memory.series(run, site, "activation/mean", limit=10**6)
        for limit in (100, 2000, 10**6):
            thin = store.series(run, site, "activation/mean", limit=limit)
            assert thin.total == whole.total
            finite = whole.values[np.isfinite(whole.values)]
            assert np.nanmin(np.ma.masked_invalid(thin.values)) == finite.min()
            assert np.nanmax(np.ma.masked_invalid(thin.values)) == finite.max()
            points = dict(zip(whole.steps.tolist(), map(repr, whole.values.tolist()), strict=True))
            assert all(points[s] == repr(v) for s, v in zip(thin.steps.tolist(), thin.values.tolist(), strict=True))
            strange = whole.steps[~np.isfinite(whole.values)]
            assert len(strange) > limit // 2 or set(strange.tolist()) <= set(thin.steps.tolist())


def test_the_newest_steps_and_those_around_a_finding_are_whole(thinned) -> None:
    _, _, run = thinned
    for first, last in ((8400, 8999), (1400, 1600)):
        got, expected = (one.series(run, "layer.17", "activation/max", first=first, last=last) for one in thinned[:2])
        np.testing.assert_array_equal(got.values, expected.values)
        np.testing.assert_array_equal(got.steps, expected.steps)


def test_old_steps_far_from_findings_are_thinned(thinned) -> None:
    store, _, run = thinned
    old = store.series(run, "layer.17", "activation/max", first=3000, last=4000, limit=10**6)
    assert 5 < len(old.values) < 300


def test_a_matrix_counts_what_was_thinned(thinned) -> None:
    store, memory, run = thinned
    for limit in (50, 500, 10**5):
        got, expected = store.matrix(run, "activation/std", limit=limit), memory.matrix(run, "activation/std")
        np.testing.assert_array_equal(got.present.sum(axis=1), expected.present.sum(axis=1))
        np.testing.assert_array_equal(got.non_finite.sum(axis=1), expected.non_finite.sum(axis=1))
        np.testing.assert_array_equal(np.nanmax(got.high, axis=1), np.nanmax(expected.high, axis=1))


def test_scalars_and_steps_are_never_thinned(thinned) -> None:
    store, _, run = thinned
    assert [one.step for one in store.replay(run)] == list(range(9000))
    got, expected = (one.series(run, "", "scalar/loss", limit=10**6) for one in thinned[:2])
    assert got.values.tobytes() == expected.values.tobytes()


def test_a_retention_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(StoreError, match="0 <= full <= fine"):
        Retention(full=10, fine=5)
