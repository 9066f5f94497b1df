"""Whether a training on another machine still runs is told by the clock of the database, not by two clocks of hosts."""

import time
from collections.abc import Callable

import pytest
from mindscope.storage import StepRecord, StoreUnavailable, open_store, process
from sqlalchemy import create_engine, text

pytestmark = pytest.mark.postgres


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """What is read from now on is read on another machine, whose clock is a day fast."""

    def move() -> None:
        monkeypatch.setattr(process, "_machine", lambda: "another machine")
        real = time.time
        monkeypatch.setattr("mindscope.storage.process.time.time", lambda: real() + 86_400.0)

    return move


def let_time_pass(url: str, run: str, seconds: float) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE recording SET updated_at = updated_at - :seconds WHERE run = :run"),
            {"seconds": seconds, "run": run},
        )
        connection.execute(
            text("DELETE FROM ledger WHERE recording = (SELECT id FROM recording WHERE run = :run)"), {"run": run}
        )
    engine.dispose()


def test_a_reader_whose_clock_is_a_day_fast_sees_a_run_that_goes_on_and_one_that_has_ended(postgres_url, elsewhere):
    with open_store(postgres_url) as store:
        writer = store.begin_run("watched")
        run = writer.run.id
        elsewhere()
        writer.write([StepRecord(0, 1.0)])
        assert (store.find_run(run).state, store.runs()[0].state) == ("running", "running")
        with pytest.raises(StoreUnavailable, match="is being written by"):
            store.begin_run("watched", run_id=run)
        let_time_pass(postgres_url, run, process.SILENCE_OF_ONE_CLOCK_S - 30)
        assert store.find_run(run).state == "running"
        let_time_pass(postgres_url, run, 31)
        assert (store.find_run(run).state, store.runs()[0].state) == ("crashed", "crashed")
