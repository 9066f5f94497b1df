"""`mindscope events` lists what happened in a run, by kind, by rank, and as a document."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from mindscope.storage import Event, StepRecord, open_store


def happened(step: int) -> tuple[Event, ...]:
    if step == 4:
        sites = [f"layer.{number}" for number in range(40)]
        return (Event("modules_changed", 4, "body", data={"count": 40, "sites": sites}),)
    return (Event("step_skipped", step, micro_step=step % 2, data={"loss_scale": 1024.0 * step}),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store whose run of two ranks has ten events on the first and one on the second."""
    place = tmp_path / "busy"
    with open_store(str(place)) as store:
        first = store.begin_run("busy")
        first.write([StepRecord(step, float(step), events=happened(step)) for step in range(10)])
        second = store.begin_run("busy", rank=1, run_id=first.run.id)
        second.write([StepRecord(3, 3.0, events=(Event("monitor_fault", 3, data={"error": "no"}),))])
        for writer in (first, second):
            writer.close()
    return place


def listed(command: Callable, *words: object) -> list[dict]:
    told = command("events", "busy", "--json", *words)
    assert (told.code, told.err) == (0, "")
    return json.loads(told.out)["events"]


def test_events_of_all_ranks_come_in_the_order_of_their_steps(command: Callable, folder: Path) -> None:
    told = command("events", "busy", "--store", folder)
    assert told.code == 0
    rows = [line.split() for line in told.out.splitlines()[2:]]
    assert [int(row[0]) for row in rows] == [0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9]
    assert "loss scale 2048" in told.out
    assert "micro-step 1, loss scale 3072" in told.out
    (changed,) = (line for line in told.out.splitlines() if "modules_changed" in line)
    assert "body" in changed
    assert "count 40" in changed
    assert "layer.39" not in changed
    assert told.err == "text that ends in ... is cut; --full and --json show all of it\n"


def test_all_of_a_text_is_there_where_it_is_asked_for(command: Callable, tmp_path: Path) -> None:
    known = [f"decoder.{number}" for number in range(60)]
    refused = f"pattern 'decodr.*' matches none of 60 sites; there are {', '.join(known)}"
    events = (
        Event("configuration_changed", 2, data={"modules": known}),
        Event("configuration_refused", 3, data={"error": refused}),
        Event("configuration_refused", 4, data={"error": refused[:300]}),
    )
    with open_store(str(tmp_path)) as store:
        writer = store.begin_run("set")
        writer.write([StepRecord(3, 3.0, events=events)])
        writer.close()
    full = command("events", "set", "--store", tmp_path, "--full")
    words = "".join(full.out.split())  # without the ends of the lines
    assert (full.code, full.err, "..." in full.out) == (0, "", False)
    assert "".join(f"modules{json.dumps(known)}".split()) in words
    assert words.count("".join(refused.split())) == 1
    cut = command("events", "set", "--store", tmp_path)
    assert cut.out.count("...") == 2
    assert "".join(refused[:300].split()) in "".join(cut.out.split())
    assert "--full and --json show all of it" in cut.err
    assert command("events", "set", "--store", tmp_path, "--kind", "configuration_refused", "--limit", 1).err == (
        "the newest 1 are shown; --limit N shows more\n"
    )


@pytest.mark.parametrize("words", [(), ("--full",)], ids=["cut", "full"])
def test_every_field_is_put_into_words_once(
    command: Callable, folder: Path, monkeypatch, words: tuple[str, ...]
) -> None:
    asked: list[object] = []

    def text(value: object) -> str:
        asked.append(value)
        return "some text"

    monkeypatch.setattr("mindscope.cli.events_command._text", text)
    assert command("events", "busy", "--store", folder, "--kind", "modules_changed", *words).out.count("some text") == 2
    assert len(asked) == 2  # the count and the sites


@pytest.mark.parametrize(
    ("kind", "words", "guess"),
    [
        ("step_*ed_not", "whose kind matches 'step_*ed_not'", False),
        ("step_skiped", "of kind 'step_skiped'", True),
    ],
)
def test_a_pattern_without_a_match_is_no_misspelt_kind(
    command: Callable, folder: Path, kind: str, words: str, guess: bool
) -> None:
    told = command("events", "busy", "--store", folder, "--kind", kind)
    assert words in told.out
    assert ("did you mean 'step_skipped'" in told.out) is guess


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (["--kind", "step_skipped"], [0, 1, 2, 3, 5, 6, 7, 8, 9]),
        (["--kind", "monitor_*", "--kind", "modules_changed", "--kind", "mod*"], [3, 4]),
        (["--rank", "1"], [3]),
        (["--kind", "nothing"], []),
    ],
    ids=["kind", "globs", "rank", "none"],
)
def test_what_is_listed_can_be_chosen(command: Callable, folder: Path, words: list[str], steps: list[int]) -> None:
    assert [one["step"] for one in listed(command, "--store", folder, *words)] == steps


def test_the_document_holds_everything_of_an_event(command: Callable, folder: Path) -> None:
    (one,) = listed(command, "--store", folder, "--kind", "modules_changed")
    assert (one["rank"], one["step"], one["micro_step"], one["site"]) == (0, 4, 0, "body")
    assert one["data"]["sites"][39] == "layer.39"


def test_the_newest_are_shown_and_that_there_are_more(command: Callable, folder: Path) -> None:
    told = command("events", "busy", "--store", folder, "--limit", "2", "--json")
    assert [one["step"] for one in json.loads(told.out)["events"]] == [8, 9]
    assert "the newest 2 are shown" in told.err


def test_a_kind_that_the_run_has_not_is_said_with_those_it_has(command: Callable, folder: Path) -> None:
    told = command("events", "busy", "--store", folder, "--kind", "step_skiped")
    assert told.code == 0
    assert "has no event of kind 'step_skiped', only modules_changed, monitor_fault, step_skipped" in told.out
    assert "did you mean 'step_skipped'?" in told.out


def test_a_run_without_events_and_a_rank_that_is_not_there_are_said(
    command: Callable, run_folder: Path, folder: Path
) -> None:
    assert command("events", "--store", run_folder).out == "run 'digits' has no events\n"
    told = command("events", "busy", "--store", folder, "--rank", "7")
    assert (told.code, told.out) == (2, "")
    assert "has no rank 7; its ranks are 0, 1" in told.err
