"""How often a reader of PostgreSQL asks: each question waits its turn behind the writers, however short it is."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from mindscope.storage import open_store
from sqlalchemy import Engine, event

from .samples import finding, layout, walk

pytestmark = pytest.mark.postgres


@contextmanager
def asked() -> Iterator[list[str]]:
    """The statements that are sent meanwhile."""
    sent: list[str] = []

    def note(_connection, _cursor, statement, *_rest) -> None:
        sent.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@pytest.fixture(scope="module")
def runs(postgres_url) -> dict[int, str]:
    """A run of two ranks and one of nine, by their number of ranks."""
    made = {ranks: f"reads-{secrets.token_hex(4)}" for ranks in (2, 9)}
    with open_store(postgres_url) as store:
        for ranks, run in made.items():
            for rank in range(ranks):
                writer = store.begin_run("reads", run_id=run, rank=rank)
                writer.write(walk(8, layout(3)), [finding(step=rank, rank=rank)])
                writer.close()
    return made


def test_the_version_of_any_number_of_ranks_is_one_question(postgres_url, runs):
    with open_store(postgres_url) as store:
        for run in runs.values():
            store.version(run)
            with asked() as sent:
                store.version(run)
            assert len(sent) == 1


def test_a_run_of_nine_ranks_is_found_with_as_many_questions_as_one_of_two(postgres_url, runs):
    counts = []
    with open_store(postgres_url) as store:
        for ranks, run in runs.items():
            store.find_run(run)
            with asked() as sent:
                found = store.find_run(run)
            assert (found.ranks, found.findings, found.last_step) == (tuple(range(ranks)), ranks, 7)
            counts.append(len(sent))
    assert counts[0] == counts[1] <= 5


def test_a_version_counts_every_rank(postgres_url, runs):
    with open_store(postgres_url) as store, open_store(postgres_url) as other:
        before = store.version(runs[9])
        writer = other.begin_run("reads", run_id=runs[9], rank=5)
        writer.write(walk(1, layout(3), first=8))
        writer.close()
        assert store.version(runs[9]) != before


def test_a_damaged_row_is_told_of_its_rank_alone(postgres_url, runs):
    with open_store(postgres_url) as store:
        backend = store._backend
        whole = backend.summaries(runs[2])
        with backend._engine.begin() as connection:
            connection.exec_driver_sql(
                "UPDATE recording SET last_step = 99 WHERE run = %(run)s AND rank = 1", {"run": runs[2]}
            )
        damaged = backend.summaries(runs[2])
    assert [summary.damage for summary in whole] == ["", ""]
    assert damaged[0].damage == ""
    assert "rank 1" in damaged[1].damage
    assert "its checksum differs" in damaged[1].damage
