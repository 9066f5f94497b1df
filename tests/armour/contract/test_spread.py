"""Batches over processes give what batches in one process give."""

import os

import numpy as np
import pytest
from mindscope.armour import PGD, InvalidInput, evaluate, wrap
from mindscope.armour.contract.attack import spread

from tests.armour.frameworks import MAKE, inputs, logits

pytest.importorskip("joblib", reason="joblib is not installed")
ALL = pytest.mark.skipif(
    not os.environ.get("MINDSCOPE_TEST_ALL"), reason="processes load their libraries: MINDSCOPE_TEST_ALL=1 runs it"
)
X = inputs(40)
Y = logits(X).argmax(axis=1)


def test_answers_come_in_the_order_of_the_batches():
    batches = [np.arange(3) + 10 * number for number in range(5)]
    assert list(spread(np.sum, batches, 2)) == [rows.sum() for rows in batches]


@pytest.mark.parametrize("framework", ["engine", pytest.param("torch", marks=ALL)])
def test_an_evaluation_over_two_processes_is_the_same_to_the_last_bit(framework):
    make, seen = MAKE[framework], []
    options = {"attacks": [PGD(steps=5, random_start=True), "deepfool"], "batch_size": 10}
    alone = evaluate(wrap(make()), X, Y, [0.05, 0.2], **options)
    spread_out = evaluate(
        wrap(make()), X, Y, [0.05, 0.2], jobs=2, progress=lambda share, label: seen.append(share), **options
    )
    assert repr(spread_out) == repr(alone)
    assert seen == sorted(seen)


def test_a_number_of_jobs_that_means_nothing_is_refused():
    with pytest.raises(InvalidInput, match="jobs expects 1 or more, or -1 for one a core, got 0"):
        evaluate(wrap(MAKE["engine"]()), X, Y, 0.1, jobs=0)


def test_a_cluster_of_dask_gives_the_same():
    distributed = pytest.importorskip(
        "dask.distributed", reason="dask is not installed; pip install mindscope[cluster]"
    )
    import joblib

    alone = evaluate(wrap(MAKE["engine"]()), X, Y, 0.1, attacks=["pgd"], batch_size=20)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        over = evaluate(wrap(MAKE["engine"]()), X, Y, 0.1, attacks=["pgd"], batch_size=20, jobs=-1)
    assert repr(over) == repr(alone)
