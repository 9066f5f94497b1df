import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from mindscope.storage import Event, Outcome, StepRecord, open_store


def test_diagnose_tells_the_verdict(command: Callable, run_folder: Path) -> None:
    told = command("diagnose", "digits", "--store", run_folder)
    assert told.code == 0
    assert "digits" in told.out


def test_diagnose_as_json_follows_the_documented_form(command: Callable, run_folder: Path) -> None:
    document = json.loads(command("diagnose", "--store", run_folder, "--json").out)
    assert {"run", "verdict", "root_causes", "findings"} <= set(document)


@pytest.mark.parametrize(("severity", "code"), [("error", 1), ("warning", 1), ("info", 1), ("", 0)])
def test_fail_on_turns_findings_into_exit_code_1(command: Callable, nan_folder: Path, severity: str, code: int) -> None:
    options = ["--fail-on", severity] if severity else []
    told = command("diagnose", "--store", nan_folder, "--json", *options)
    assert told.code == code
    causes = [finding["cause"] for finding in json.loads(told.out)["root_causes"]]
    assert causes == ["non_finite_loss"]


def test_fail_on_of_an_unknown_severity_names_the_nearest(command: Callable, run_folder: Path) -> None:
    told = command("diagnose", "--store", run_folder, "--fail-on", "eror")
    assert (told.code, told.out) == (2, "")
    assert "did you mean 'error'" in told.err


def test_what_diagnose_finds_is_kept_only_when_asked(command: Callable, nan_folder: Path) -> None:
    command("diagnose", "--store", nan_folder)
    assert json.loads(command("show", "--store", nan_folder, "--json").out)["findings"] == []
    command("diagnose", "--store", nan_folder, "--write")
    assert json.loads(command("show", "--store", nan_folder, "--json").out)["findings"] != []


def test_a_run_compared_with_itself_is_identical(command: Callable, run_folder: Path) -> None:
    told = command("compare", "digits", "digits", "--store", run_folder, "--json")
    assert (told.code, json.loads(told.out)["verdict"]) == (0, "identical")


def test_a_rank_that_is_not_there_is_wrong_use(command: Callable, run_folder: Path) -> None:
    told = command("compare", "digits", "digits", "--ranks", "0,3", "--store", run_folder)
    assert (told.code, told.out) == (2, "")
    assert "has no rank 3" in told.err


def losses(folder: Path, **courses: Callable[[int], float]) -> None:
    """A store with a run a course of the loss."""
    with open_store(str(folder)) as store:
        for name, loss in courses.items():
            writer = store.begin_run(name)
            writer.write([StepRecord(step, float(step), scalars={"loss": loss(step)}) for step in range(40)])
            writer.close()


def test_a_good_run_makes_the_diagnosis_sensitive_also_from_another_store(command: Callable, tmp_path: Path) -> None:
    losses(tmp_path / "runs", stalled=lambda step: 2.0 * 0.9 ** min(step, 6), good=lambda step: 2.0 * 0.9**step)
    losses(tmp_path / "others", good=lambda step: 2.0 * 0.9**step)
    asked = ("diagnose", "stalled", "--store", tmp_path / "runs", "--reference", "good", "--json")
    document = json.loads(command(*asked).out)
    assert [one["metric"] for one in document["root_causes"]] == ["scalar/loss"]
    assert document["reference"] == "good"
    elsewhere = json.loads(command(*asked, "--reference-store", tmp_path / "others").out)
    assert elsewhere["root_causes"] == document["root_causes"]
    alone = json.loads(command("diagnose", "stalled", "--store", tmp_path / "runs", "--json").out)
    assert alone["root_causes"] == []


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--write"], "leave out --write or --reference"), ([], "cannot be its own reference")],
    ids=["write", "itself"],
)
def test_a_reference_that_makes_no_sense_is_wrong_use(
    command: Callable, run_folder: Path, options: list[str], words: str
) -> None:
    told = command("diagnose", "digits", "--store", run_folder, "--reference", "digits", *options)
    assert told.code == 2
    assert words in " ".join(told.err.split())


def test_conditions_are_put_to_a_run_that_is_over(command: Callable, nan_folder: Path) -> None:
    told = command("diagnose", "--store", nan_folder, "--watch", "scalar/loss > -1e9", "--json", "--fail-on", "warning")
    assert told.code == 1
    assert [one["cause"] for one in json.loads(told.out)["findings"]] == ["watchpoint"]
    none = command("diagnose", "--store", nan_folder, "--watch", "scalar/loss < -1e9")
    assert (none.code, none.out) == (0, "the conditions hold nowhere in the recorded data\n")


@pytest.mark.parametrize(
    ("condition", "words"),
    [("nan @ haed", "matches none of"), ("scalar/lss > 3", "has not recorded it; did you mean 'scalar/loss'?")],
    ids=["site", "metric"],
)
def test_a_condition_that_names_nothing_of_the_run_is_wrong_use(
    command: Callable, nan_folder: Path, condition: str, words: str
) -> None:
    told = command("diagnose", "--store", nan_folder, "--watch", condition)
    assert told.code == 2
    assert words in told.err


def test_an_evaluation_is_not_diagnosed_as_a_training(command: Callable, tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        writer = store.begin_run("attacked", kind="evaluation")
        writer.write_outcomes([Outcome("pgd", "linf", 0.1, 0.25, 8), Outcome("privacy rdp", "", 1.712, math.nan, 0)])
        writer.close()
    assert "an evaluation, not a training; `mindscope show" in command("diagnose", "attacked", "--store", tmp_path).out
    shown = command("show", "attacked", "--store", tmp_path)
    rows = [line.split() for line in shown.out.splitlines()]
    assert ["pgd", "linf", "0.1", "0.250", "8"] in rows
    assert ["privacy", "rdp", "1.712"] in rows
    assert "no findings" not in shown.out
    assert len(json.loads(command("show", "attacked", "--store", tmp_path, "--json").out)["outcomes"]) == 2


def test_a_training_whose_optimizer_never_stepped_is_asked_for_it(command: Callable, tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        writer = store.begin_run("forgotten")
        writer.write([StepRecord(0, 0.0, scalars={"loss": 1.0}), StepRecord(0, 1.0, 1, scalars={"loss": 1.0})])
        writer.close()
    assert "did the watched optimizer step" in command("diagnose", "forgotten", "--store", tmp_path).out


def test_of_a_run_without_a_step_it_is_said_once_that_rules_could_not_run(command: Callable, tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.begin_run("empty", framework="none").close()
    told = command("diagnose", "empty", "--store", tmp_path)
    assert told.code == 0
    assert "no step of a training was recorded" in told.out
    assert len(told.out.splitlines()) < 5


def test_all_runs_are_diagnosed_a_line_each(command: Callable, tmp_path: Path) -> None:
    losses(tmp_path, good=lambda step: 2.0 * 0.9**step, bad=lambda step: math.nan if step == 30 else 1.0)
    with open_store(tmp_path) as store:
        store.begin_run("attacked", kind="evaluation").close()  # has outcomes and no steps: not a line
    told = command("diagnose", "--all", "--store", tmp_path, "--workers", "2")
    assert told.code == 0, told.err
    assert [line.split()[1] for line in told.out.splitlines()[2:]] == ["bad", "good"]
    document = json.loads(command("diagnose", "--all", "--store", tmp_path, "--json").out)
    causes = {run["name"]: [cause["cause"] for cause in run["root_causes"]] for run in document["runs"]}
    assert causes == {"bad": ["non_finite_loss"], "good": []}
    assert command("diagnose", "--all", "--store", tmp_path, "--fail-on", "error").code == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["bad", "--all"], "leave out RUN"),
        (["--workers", "2"], "add --all"),
        (["--all", "--workers", "many"], "must be a number"),
    ],
)
def test_options_of_all_runs_that_do_not_go_together_are_wrong_use(
    command: Callable, run_folder: Path, options: list[str], words: str
) -> None:
    told = command("diagnose", *options, "--store", run_folder)
    assert told.code == 2
    assert words in told.err


def test_a_run_that_failed_in_its_first_step_is_not_asked_whether_it_stepped(command: Callable, tmp_path: Path) -> None:
    with open_store(str(tmp_path)) as store:
        writer = store.begin_run("first", run_id="first")
        writer.write_events([Event("exception", 0, data={"type": "KeyError", "message": "'x'"})])
        writer.close("failed", "KeyError: 'x'")
    told = command("diagnose", "first", "--store", tmp_path)
    assert "program_error" in told.out
    assert "did the watched optimizer step" not in told.out
