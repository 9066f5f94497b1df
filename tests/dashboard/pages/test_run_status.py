"""What the page of a run that goes on is told when nothing was written."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from mindscope.dashboard import Settings, create_app
from mindscope.dashboard.pages.live_run.live_run_page import cursor_now, to_json
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import StepRecord, Store, open_store

from ..calling import call


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory:") as opened:
        yield opened


@pytest.mark.parametrize("is_over", [False, True], ids=["running", "finished"])
def test_the_time_since_the_last_news_goes_on_until_the_run_is_over(store: Store, is_over: bool) -> None:
    writer = store.begin_run("live")
    writer.write([StepRecord(0, 0.0, scalars={"loss": 1.0})])
    if is_over:
        writer.close()
    reader, run = Reader(store), store.find_run("live")
    seen = to_json(replace(cursor_now(reader, run), step=0))
    state = {"live-cursor": seen, "live-run": run.id, "live-scalar": "loss", "live-scale": "linear", "live-span": None}
    answer = call(create_app(store, Settings()), "live-cursor.data", {"live-tick": 1}, state)
    if is_over:
        assert answer.status_code == 204  # nothing is sent any more
        return
    sent = answer.get_json()["response"]
    assert set(sent) == {"live-status"}
    assert "updated" in str(sent)
