import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mindscope.insight import judge, stored_facts
from mindscope.storage import Block, Event, Layout, StepRecord, blobs_of, open_store


def test_runs_lists_what_the_store_holds(command: Callable, run_folder: Path) -> None:
    told = command("runs", run_folder)
    assert (told.code, told.err) == (0, "")
    assert "digits" in told.out
    assert "finished" in told.out
    assert "lr=0.1" in told.out


def test_runs_as_json_is_one_document_with_the_same_runs(command: Callable, run_folder: Path) -> None:
    told = command("runs", run_folder, "--json")
    (run,) = json.loads(told.out)["runs"]
    assert (run["name"], run["state"], run["last_step"], run["findings"]) == ("digits", "finished", 9, 1)


@pytest.mark.parametrize("words", [("runs",), ("lineage",), ("migrate",), ("dashboard", "--export", "here")], ids=str)
def test_a_store_may_also_be_named_as_the_other_commands_name_it(
    command: Callable, run_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    told = command(*words, "--store", run_folder)
    assert (told.code, told.err) == (0, "")
    assert not Path("runs").exists()


def test_several_findings_are_told_with_the_worst_of_them(command: Callable, run_folder: Path) -> None:
    assert "1 warning" in command("runs", run_folder).out
    with open_store(str(run_folder)) as store:
        (run,) = store.runs()
        (found,) = store.findings(run.id)
        store.write_findings(run.id, [replace(found, rule="another", severity="error")])
    assert "2, worst: error" in command("runs", run_folder).out


def test_the_store_may_be_named_by_the_environment(
    command: Callable, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINDSCOPE_STORE", str(run_folder))
    assert "digits" in command("runs").out


def test_show_tells_model_loss_streams_and_findings(command: Callable, run_folder: Path) -> None:
    told = command("show", "digits", "--store", run_folder)
    assert told.code == 0
    for words in ("10 steps", "32 elements", "1 → 0.1", "weight", "dead_units", "no unit fires"):
        assert words in told.out


def test_show_tells_what_a_step_takes_and_how_it_takes_less(command: Callable, tmp_path: Path) -> None:
    few, many = (Layout("gradient", tuple(f"{at}.weight" for at in range(count)), ("std",), ("float32",))
                 for count in (3, 20_000))  # fmt: skip
    random = np.random.default_rng(0)
    for name, layout in (("few", few), ("many", many)):
        with open_store(tmp_path) as store:
            writer = store.begin_run(name)
            shape = (len(layout.sites), 1)
            writer.write(
                [
                    StepRecord(step, float(step), blocks=(Block(layout, random.normal(size=shape)),))
                    for step in range(100)
                ]
            )
            writer.close()
    assert re.search(r"  stored: \d+(\.\d+)? kB, .* a step\n", command("show", "few", "--store", tmp_path).out)
    shown = command("show", "many", "--store", tmp_path).out
    assert re.search(r"  stored: \d(\.\d+)? MB, \d\d(\.\d)? kB a step; less with every: 10, or subjects", shown)


def test_a_forward_behind_the_last_step_is_no_step(command: Callable, tmp_path: Path) -> None:
    for name, last in (
        ("whole", {"step_seconds": 0.1}),
        ("evaluated", {}),
        ("unknown", None),
        ("thinned", {"loss": 1.0}),  # of a last step that was idle the loss alone is kept
    ):
        with open_store(tmp_path) as store:
            writer = store.begin_run(name)
            scalars = [{"loss": 1.0} if last is None else {"step_seconds": 0.1} for _ in range(5)]
            scalars.append({"batch": 1.0} if last == {} else last or {"loss": 1.0})
            writer.write([StepRecord(step, float(step), scalars=values) for step, values in enumerate(scalars)])
            writer.close()
    for name, steps in (("whole", 6), ("evaluated", 5), ("unknown", 6), ("thinned", 6)):
        assert f"{steps} steps" in command("show", name, "--store", tmp_path).out
    counts = {line.split()[1]: line.split()[4] for line in command("runs", tmp_path).out.splitlines()[2:]}
    assert counts == {"whole": "6", "evaluated": "5", "unknown": "6", "thinned": "6"}


def test_show_tells_when_a_run_began_and_when_one_without_an_end_was_last_heard_of(
    command: Callable, run_folder: Path, tmp_path: Path
) -> None:
    assert re.search(r"finished · 10 steps · begun \d+ s ago · training", command("show", "--store", run_folder).out)
    with open_store(str(tmp_path / "cut")) as store:
        writer = store.begin_run("cut")
        writer.write([StepRecord(0, 0.0)])
        told = command("show", "cut", "--store", tmp_path / "cut").out
        writer.close()
    assert re.search(r"running · 1 steps · begun \d+ s ago · last heartbeat \d+ s ago", told)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("KeyboardInterrupt", "interrupted"),
        ("TrainingStopped: a person did", "stopped"),
        ("ValueError: boom", "failed"),
    ],
)
def test_every_command_has_the_same_word_for_how_a_run_ended(
    command: Callable, tmp_path: Path, error: str, words: str
) -> None:
    with open_store(str(tmp_path)) as store:
        writer = store.begin_run("ended")
        writer.write([StepRecord(0, 0.0)])
        writer.close("failed", error)
        assert store.find_run("ended").state == "failed", "for programs"
    for name in (("show", "ended", "--store"), ("runs",)):
        assert f" {words} " in command(*name, tmp_path).out
    assert (
        f"the run {'' if words == 'failed' else 'was '}{words} at step 0"
        in command("diagnose", "ended", "--store", tmp_path).out
    )


def test_show_tells_what_the_script_was_called_with(command: Callable, run_folder: Path) -> None:
    assert "arguments:" not in command("show", "digits", "--store", run_folder).out
    with open_store(str(run_folder)) as store:
        store.begin_run("called", host={"arguments": ["--lr", "3", "--name", "a b", "[x]"]}).close()
    told = command("show", "called", "--store", run_folder).out
    assert "  arguments: --lr 3 --name 'a b' '[x]'" in told.splitlines()


def test_show_tells_what_an_overhead_budget_has_left_out(command: Callable, run_folder: Path) -> None:
    assert "schedule:" not in command("show", "digits", "--store", run_folder).out
    assert json.loads(command("show", "digits", "--store", run_folder, "--json").out)["thinned"] is None
    data = {"factor": 8, "share": 0.2, "budget": 0.03, "subjects": ["weight", "attention"]}
    with open_store(str(run_folder)) as store:
        writer = store.begin_run("thin")
        writer.write([StepRecord(4, 4.0, events=(Event("schedule_thinned", 4, data=data),))])
        writer.close()
    told = command("show", "thin", "--store", run_folder)
    assert "schedule: thinned since step 4 by the overhead budget of 3 %: one in 8 due steps (" in told.out
    assert "had cost 20 % of a step); of weight, attention" in " ".join(told.out.split())
    document = json.loads(command("show", "thin", "--store", run_folder, "--json").out)
    assert (document["thinned"]["since"], document["thinned"]["factor"]) == (4, 8)


def test_show_tells_what_was_dumped_where_it_is_and_what_found_no_room(command: Callable, tmp_path: Path) -> None:
    folder = tmp_path / "runs"

    def told(events: list[Event], name: str) -> tuple[str, dict]:
        with open_store(str(folder)) as store:
            writer = store.begin_run(name, run_id=name)
            writer.write([StepRecord(8, 8.0, events=tuple(events))])
            writer.close()
        text = command("show", name, "--store", folder).out
        return text, json.loads(command("show", name, "--store", folder, "--json").out)["tensors"]

    blobs = blobs_of(str(folder), "some")
    digests = [blobs.put(np.full(250, value, np.float32)).digest for value in range(6)]
    stored = [
        Event("tensor", step, f"head.{at}", data={"subject": "weight", "digest": one, "shape": [250]})
        for step in (2, 8)
        for at, one in enumerate(digests)
    ]
    lost = Event("tensors_left_out", 8, data={"count": 3, "reason": "the disk is full"})
    text, document = told([*stored, lost], "some")
    words = "12 whole tensors (weight of head.0, head.1, head.2, head.3 and 2 more sites; steps 2 and 8), 6."
    assert f"dumped: {words}" in text
    assert f" kB in {blobs.folder}; 3 were left out: the disk is full" in " ".join(text.split())
    assert (document["count"], len(document["sites"]), document["left_out"]) == (12, 6, 3)
    assert (document["first_step"], document["last_step"], document["steps"]) == (2, 8, [[2, 2], [8, 8]])
    assert document["size_bytes"] == blobs.size_bytes() > 6000
    assert "whose files are gone from" in told(stored, "moved")[0]
    assert "dumped: no whole tensor; 3 were left out: the disk is full" in told([lost], "full")[0]
    since = [
        Event("tensors_left_out", step, data={"count": count, "reason": "no room", "first": step, "last": last})
        for step, count, last in ((3, 1, 3), (4, 5, 8))
    ]
    text, document = told([*stored, *since], "short")
    assert "; 6 were left out (steps 3 to 8): no room" in " ".join(text.split())
    assert (document["first_left_out"], document["last_left_out"], document["reason"]) == (3, 8, "no room")
    apart = [lost_at for lost_at in since if lost_at.step == 3] + [
        replace(since[1], data={**since[1].data, "first": 6})
    ]
    assert "; 6 were left out (steps 3 and 6 to 8): no room" in " ".join(told([*stored, *apart], "apart")[0].split())
    text, document = told([], "none")
    assert document is None
    assert "dumped:" not in text


def test_show_tells_under_way_since_when_tensors_find_no_room(command: Callable, tmp_path: Path) -> None:
    lost = Event("tensors_left_out", 3, data={"count": 2, "reason": "no room", "first": 3, "last": 3})
    with open_store(str(tmp_path / "runs")) as store:
        writer = store.begin_run("going")
        writer.write([StepRecord(8, 8.0, events=(lost,))])
        text = command("show", "going", "--store", tmp_path / "runs").out
        writer.close()
    assert "dumped: no whole tensor; 2 or more were left out, from step 3 on: no room" in " ".join(text.split())


def test_show_tells_how_many_records_were_lost(command: Callable, tmp_path: Path) -> None:
    with open_store(str(tmp_path / "runs")) as store:
        writer = store.begin_run("hasty")
        for step, count in ((4, 3), (9, 5)):
            lost = Event("observations_lost", step, data={"count": count})
            writer.write([StepRecord(step, float(step), events=(lost,))])
        writer.close()
    told = command("show", "hasty", "--store", tmp_path / "runs")
    assert "lost: 8 records; mindscope events hasty --kind observations_lost" in told.out
    assert json.loads(command("show", "hasty", "--store", tmp_path / "runs", "--json").out)["lost_records"] == 8


def test_show_has_one_line_a_subject_and_a_word_on_modules_that_changed(command: Callable, tmp_path: Path) -> None:
    def block(*sites: str, part: int) -> Block:
        layout = Layout("weight", sites, ("l2_norm",), ("float32",), part=part)
        return Block(layout, np.ones((len(sites), 1)))

    sites = [f"head.{number}" for number in range(9)]
    change = Event("modules_changed", 4, data={"sites": [*sites], "count": 40})
    with open_store(str(tmp_path / "runs")) as store:
        writer = store.begin_run("grown")
        for step in range(8):
            blocks = (block("body.weight", "head.weight", part=0),)
            late = (block("body.weight", "head.0.weight", "head.1.weight", part=1),) if step > 4 else ()
            writer.write([StepRecord(step, float(step), blocks=blocks + late, events=(change,) if step == 4 else ())])
        writer.close()
    told = command("show", "grown", "--store", tmp_path / "runs").out
    (line,) = (line.split() for line in told.splitlines() if line.startswith("weight"))
    assert line == ["weight", "4", "l2_norm"]
    assert "modules changed at step 4: head.0, head.1, head.2, head.3, head.4, head.5 and 34 more" in told
    assert "form one series" in told


def test_show_tells_which_optimizer_took_the_place_of_which_and_when(command: Callable, tmp_path: Path) -> None:
    new_head = Event("modules_changed", 6, data={"sites": ["head"], "count": 1})
    anew = Event("optimizer_changed", 4, data={"optimizer_kind": "AdamW", "before": ["SGD", "Adam"]})
    with open_store(str(tmp_path / "runs")) as store:
        writer = store.begin_run("anew")
        writer.write([StepRecord(one.step, float(one.step), events=(one,)) for one in (anew, new_head)])
        writer.close()
    told = command("show", "anew", "--store", tmp_path / "runs").out.splitlines()
    place = told.index("  optimizer changed at step 4: AdamW replaced SGD, Adam")
    assert told[place + 1].startswith("  modules changed at step 6: head;")


def test_show_as_json_holds_the_loss_curve(command: Callable, run_folder: Path) -> None:
    document = json.loads(command("show", "latest", "--store", run_folder, "--json").out)
    assert document["loss"]["steps"] == list(range(10))
    assert document["loss"]["values"][-1] == pytest.approx(0.1)
    assert document["findings"][0]["cause"] == "dead_units"
    assert "weight/l2_norm" in document["metrics"]


def test_an_unknown_run_is_wrong_use_and_names_the_nearest(command: Callable, run_folder: Path) -> None:
    told = command("show", "digit", "--store", run_folder)
    assert (told.code, told.out) == (2, "")
    assert "digits" in told.err
    assert told.err.count("\n") == 1


def test_reading_never_creates_a_store(command: Callable, tmp_path: Path) -> None:
    told = command("runs", tmp_path / "nowhere")
    assert told.code == 3
    assert "there is no store at" in told.err
    assert not (tmp_path / "nowhere").exists()


def test_an_empty_store_says_how_to_fill_it(command: Callable, tmp_path: Path) -> None:
    assert "mindscope demo" in command("runs", tmp_path).out


def test_settings_of_a_run_that_has_ended_are_wrong_use(command: Callable, run_folder: Path) -> None:
    told = command("set", "digits", "every=10", "--store", run_folder)
    assert (told.code, told.out) == (2, "")
    assert "only a running one can be changed" in told.err
    assert "key=value" in command("set", "digits", "every", "--store", run_folder).err


def test_show_says_the_verdict_of_the_stored_findings_as_the_pages_do(command: Callable, run_folder: Path) -> None:
    shown = json.loads(command("show", "latest", "--store", run_folder, "--json").out)
    text = command("show", "latest", "--store", run_folder).out
    with open_store(str(run_folder)) as store:
        run = store.find_run("latest")
        judged = judge(store.findings(run.id), stored_facts(store, run.id))
    assert (shown["verdict"], shown["verdict_words"]) == (judged.verdict, judged.words) == ("unhealthy", "unhealthy")
    assert "verdict: unhealthy; mindscope diagnose" in " ".join(text.split())
