"""One recorded store for all tests that only read."""

from collections.abc import Iterator

import pytest
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import Run, Store, open_store

from .recorded import Plan, write_evaluation, write_run


@pytest.fixture(scope="session")
def recorded_store() -> Iterator[Store]:
    """A bad run, its evaluation, and a healthy twin that is still running; nobody writes to it any more."""
    store = open_store("memory:")
    bad = write_run(store)
    write_evaluation(store, bad)
    write_run(store, "gpt-healthy", Plan(steps=120, goes_bad=False, spike_at=None, seed=1), closes=False)
    yield store
    store.close()


@pytest.fixture(scope="session")
def reader(recorded_store: Store) -> Reader:
    return Reader(recorded_store)


@pytest.fixture(scope="session")
def bad_run(recorded_store: Store) -> Run:
    return recorded_store.find_run("gpt-nan")


@pytest.fixture(scope="session")
def healthy_run(recorded_store: Store) -> Run:
    return recorded_store.find_run("gpt-healthy")
