"""What an overhead budget has left out of a run is told, whichever way its decisions went."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from mindscope.insight import diagnose
from mindscope.insight.schedule_thinning import thinning_of
from mindscope.storage import Event, MemoryStore, StepRecord, Store

BUDGET, COST = "by the overhead budget of 3 %", "a recorded one had cost"
ALL = "of activation, attention, weight, histogram, gradient, update"
SUBJECTS = ["activation", "attention", "weight", "histogram", "gradient", "update"]


def decided(step: int, factor: int, share: float = 0.12, subjects: list[str] = SUBJECTS) -> Event:
    data = {"factor": factor, "share": share, "budget": 0.03, "subjects": subjects}
    return Event("schedule_thinned", step, data=data)


def run_with(store: Store, *ranks: Sequence[Event], scalars: Mapping[str, float] | None = None) -> str:
    """A run of 100 steps whose ranks have made these decisions."""
    run = ""
    for rank, events in enumerate(ranks):
        writer = store.begin_run("thin", rank=rank, run_id=run or None)
        run = writer.run.id
        by_step = {event.step: event for event in events}
        writer.write(
            [
                StepRecord(step, float(step), scalars=scalars or {}, events=(by_step[step],) if step in by_step else ())
                for step in range(100)
            ]
        )
        writer.close()
    return run


def test_of_many_subjects_the_number_is_told() -> None:
    with MemoryStore() as store:
        run = run_with(store, [decided(11, 4, subjects=[f"gradient/{number}" for number in range(12)])])
        found = thinning_of(store, run)
        assert found is not None
        assert found.to_text().endswith("; of 12 subjects")


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([decided(11, 4)], f"thinned since step 11 {BUDGET}: one in 4 due steps ({COST} 12 % of a step); {ALL}"),
        (
            [decided(11, 4), decided(40, 8, 0.2)],
            f"since step 11 {BUDGET}: one in 4 due steps ({COST} 12 % of a step), one in 8 since step 40 (20 %); {ALL}",
        ),
        (
            [decided(11, 4), decided(40, 1, 0.01)],
            f"thinned from step 11 to 40 {BUDGET}: one in 4 due steps ({COST} 12 % of a step), "
            f"every one again since step 40 (1 %); {ALL}",
        ),
        ([decided(11, 4), decided(40, 1), decided(70, 2)], f"thinned since step 70 {BUDGET}: one in 2 due steps ("),
        (
            [decided(step, 2 + step % 4, step / 1000) for step in (10, 20, 30, 50, 60)],
            "(a recorded one had cost 1 % of a step), 2 more decisions, "
            "one in 4 since step 50 (5 %), one in 2 since step 60 (6 %);",
        ),
        (
            [decided(11, 4), decided(40, 8, subjects=[*SUBJECTS, "weight/spectrum"])],
            f"; {ALL}, weight/spectrum (since step 40)",
        ),
    ],
    ids=["once", "more", "no more", "again", "often", "of more"],
)
def test_the_line_tells_since_when_and_how_much_is_left_out(events: list[Event], words: str) -> None:
    with MemoryStore() as store:
        run = run_with(store, events)
        found = thinning_of(store, run)
        assert found is not None
        assert words in found.to_text()
        text = diagnose(store, run).to_text()
        assert f"\nschedule: {found.to_text()}\n" in f"{text}\n"
        assert found.to_text() in diagnose(store, run).to_markdown()


def test_the_first_gap_is_told_and_scalars_that_were_left_out_are_listed() -> None:
    first, second = decided(11, 4, subjects=["clip", "learning_rate", "loss", "weight"]), decided(40, 8)
    first, second = (replace(one, data={**one.data, "since": one.step - 7}) for one in (first, second))
    with MemoryStore() as store:
        run = run_with(store, [first, second], scalars={"loss": 1.0, "learning_rate/1": 0.1})
        found = thinning_of(store, run)
    assert found is not None
    assert (found.since, found.changed, found.subjects) == (4, 40, ("learning_rate", "loss", "histogram"))


def test_of_several_ranks_the_one_that_leaves_out_most_is_told() -> None:
    with MemoryStore() as store:
        run = run_with(store, [decided(11, 2)], [decided(12, 16)], [])
        found = thinning_of(store, run, (0, 1, 2))
        assert found is not None
        assert (found.rank, found.factor, found.since) == (1, 16, 12)
        assert "on rank 1" in found.to_text()


def test_a_run_in_full_says_nothing_of_it() -> None:
    with MemoryStore() as store:
        run = run_with(store, [])
        assert thinning_of(store, run) is None
        assert "schedule:" not in diagnose(store, run).to_text()
        assert diagnose(store, run).to_json()["thinned"] is None


def test_the_document_of_a_diagnosis_holds_it() -> None:
    with MemoryStore() as store:
        document = diagnose(store, run_with(store, [decided(11, 4), decided(40, 8)])).to_json()
    assert json.loads(json.dumps(document))["thinned"] == {
        "since": 11,
        "changed": 40,
        "factor": 8,
        "share": 0.12,
        "budget": 0.03,
        "subjects": SUBJECTS,
        "rank": 0,
        "decisions": [{"step": 11, "factor": 4, "share": 0.12}, {"step": 40, "factor": 8, "share": 0.12}],
        "joined": {},
    }
