"""What every test may rely on: stores of every kind, and that what this machine must have is never skipped."""

import gc
import os
import random
import secrets
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from mindscope.insight import rule_confidence
from mindscope.storage import Store, open_store

# How long an example takes says something of the machine, which is shared, and nothing of the code; and a draw that
# outgrows its buffer counts as filtered. The usual run draws the same examples each time, `make test-all` new ones.
_CALM = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
settings.register_profile("sampled", deadline=None, suppress_health_check=_CALM, derandomize=True)
settings.register_profile("complete", deadline=None, suppress_health_check=_CALM, print_blob=True)
settings.load_profile("complete" if os.environ.get("MINDSCOPE_TEST_ALL") else "sampled")

# A shell that runs the tests in the background lets them, and all they start, ignore Ctrl-C; here it is tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: Folders and files with many cases, or such that train for seconds. Of the cases of a test the usual run takes this
#: many, the same ones each time; `make test-all` takes all.
SAMPLED = {
    "tests/probe/torch_modes/": 2,
    "tests/probe/distributed/test_own_collectives.py": 1,
    "tests/probe/distributed/test_ranks_apart.py": 1,
    "tests/probe/distributed/test_run_in_ranks.py": 1,
    "tests/test_examples.py": 6,
    "tests/dashboard/test_locked_store.py": 1,
    "tests/end_to_end/test_faults.py": 5,
    "tests/benchmarks/divergence/": 1,
    "tests/benchmarks/test_ranks_hangs.py": 1,
    "tests/contracts/test_primitives.py": 240,
    "tests/contracts/test_cells": 120,
    "tests/framework/": 180,
}
#: What takes longest, or mostly waits, begins first: at the end it would leave the other core idle.
FIRST = ("tests/test_docs.py", "tests/probe/distributed/", "tests/benchmarks/", "tests/storage/streams/")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put long tests first, and leave out the cases that only the complete run takes."""
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
    if os.environ.get("MINDSCOPE_TEST_ALL"):
        return
    cases: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        most = next((most for place, most in SAMPLED.items() if item.nodeid.startswith(place)), 0)
        if most and hasattr(item, "callspec"):
            cases.setdefault((item.nodeid.partition("[")[0], most), []).append(item)
    left_out = {
        item
        for (name, most), found in cases.items()
        if len(found) > most
        for item in set(found) - set(random.Random(name).sample(found, most))
    }
    if left_out:
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]


#: Words that a skip reason contains when PostgreSQL, NATS, a browser or PyTorch is missing. A machine that has them
#: names them in MINDSCOPE_REQUIRE, and then such a skip is a failure.
REQUIRED = tuple(word for word in os.environ.get("MINDSCOPE_REQUIRE", "").lower().split(",") if word)


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    told = report.longrepr  # (file, line, reason); names of folders are no reason
    reason = str(told[2] if isinstance(told, tuple) else told).lower()
    missing = [word for word in REQUIRED if word in reason]
    if missing:
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped though this machine must have {missing[0]}: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


#: What broke pytest itself, first things first.
_INTERNAL: list[str] = []


def pytest_internalerror(excrepr: object) -> None:
    """Keep what broke: a worker that breaks makes the run break once more, which ends the log."""
    _INTERNAL.append(str(excrepr))


def pytest_unconfigure() -> None:
    """Say at the very end what broke first."""
    if len(_INTERNAL) > 1:
        sys.stderr.write("What broke first:\n" + "\n".join(_INTERNAL[0].splitlines()[-15:]) + "\n")


#: The state that each generator of a test module had when all tests were collected.
_DRAWN = pytest.StashKey[dict[np.random.Generator, Mapping[str, Any]]]()


def _generators(module: object) -> list[np.random.Generator]:
    return [value for value in vars(module).values() if isinstance(value, np.random.Generator)]


def pytest_collection_finish(session: pytest.Session) -> None:
    modules = {item.module for item in session.items if isinstance(item, pytest.Function)}
    session.stash[_DRAWN] = {each: each.bit_generator.state for module in modules for each in _generators(module)}


@pytest.fixture(autouse=True)
def _draws_of_its_own(request: pytest.FixtureRequest) -> None:
    """What a test draws does not hang on which tests ran before it in its process."""
    drawn = request.session.stash[_DRAWN]
    for each in _generators(request.module):
        each.bit_generator.state = drawn[each]
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - what a program under test draws from
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _a_process_of_its_own() -> Iterator[None]:
    """Checks that look through the process meet no networks of earlier tests, nor what torch says it compiled then."""
    compiler = sys.modules.get("torch._dynamo.utils")
    if compiler is not None:
        compiler.counters.clear()
    gc.freeze()  # what is there already is not among the collector's objects
    yield
    gc.unfreeze()


POSTGRES = os.environ.get("MINDSCOPE_TEST_POSTGRES", "postgresql+psycopg://postgres@127.0.0.1:5432/test")


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    """A schema of its own in a PostgreSQL that answers, dropped afterwards."""
    sqlalchemy = pytest.importorskip("sqlalchemy")
    pytest.importorskip("psycopg", reason="PostgreSQL's driver psycopg is not installed")
    schema = f"mindscope_{secrets.token_hex(4)}"
    engine = sqlalchemy.create_engine(POSTGRES, connect_args={"connect_timeout": 3})
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    except sqlalchemy.exc.OperationalError as error:
        pytest.skip(f"no PostgreSQL answers at {POSTGRES}: {str(error.orig).splitlines()[0]}")
    yield f"{POSTGRES}?options=-csearch_path%3D{schema}"
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP SCHEMA {schema} CASCADE")
    engine.dispose()


NATS = os.environ.get("MINDSCOPE_TEST_NATS", "nats://127.0.0.1:4222")


@pytest.fixture
def nats_url() -> Iterator[str]:
    """A project of its own at a NATS server with JetStream that answers, removed afterwards."""
    pytest.importorskip("nats", reason="NATS's client nats-py is not installed")
    from mindscope.storage import StoreUnavailable
    from mindscope.storage.streams.nats_connection import NatsConnection, stream_name
    from mindscope.storage.streams.nats_transport import NatsTransport
    from mindscope.storage.streams.transport import parse_address

    url = f"{NATS}/test-{secrets.token_hex(4)}"
    address = parse_address(url, ())
    try:
        NatsTransport(f"{url}?partitions=8").check()
    except StoreUnavailable as error:
        pytest.skip(f"no NATS server with JetStream answers at {NATS}: {error}")
    yield url
    with NatsConnection(address) as connection:
        connection.ask(lambda _, jetstream: jetstream.delete_stream(stream_name(address)))


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], float]:
    """Waits for what another thread or process does; the seconds that it took. It fails after a minute."""

    def wait(claim: Callable[[], bool]) -> float:
        begin = time.monotonic()
        while not claim():
            assert time.monotonic() - begin < 60.0, "it did not come true within a minute"
            time.sleep(0.01)
        return time.monotonic() - begin

    return wait


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An open store of each kind."""
    urls: dict[str, Callable[[], str]] = {
        "memory": lambda: "memory:",
        "sqlite": lambda: str(tmp_path / "runs"),
        "postgres": lambda: request.getfixturevalue("postgres_url"),
    }
    with open_store(urls[request.param]()) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _every_rule_may_speak(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out which rules accused healthy runs: that is measured anew, and says nothing of a rule's check."""
    monkeypatch.setattr(rule_confidence, "ACCUSED", {})
    monkeypatch.setattr(rule_confidence, "NAMED_ABROAD", {})
    monkeypatch.setattr(rule_confidence, "RUNS", 0)
