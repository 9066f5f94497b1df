"""`mindscope compare` on the terminal: what differs first comes first."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mindscope.storage import Event, ModuleInfo, StepRecord, Structure, blobs_of, open_store

#: Site, subject and value as a training of two layers brings them forth; weights are told at the end of the step.
STEP = (
    ("[0]", "input", 1.0),
    ("one[0]", "input", 1.0),
    ("one", "activation", 2.0),
    ("two[0]", "input", 2.0),
    ("two", "activation", 3.0),
    ("", "activation", 3.0),
    ("two", "activation_grad", 4.0),
    ("one", "activation_grad", 5.0),
    ("one.weight", "weight", 6.0),
    ("two.weight", "weight", 7.0),
    ("one.weight", "gradient", 8.0),
    ("two.weight", "gradient", 9.0),
)
IN_ORDER = [*STEP[8:10], *STEP[:8], STEP[11], STEP[10]]


def dumped(
    folder: Path, name: str, odd: frozenset[str] = frozenset(), prefix: str = "", steps: int = 2, of: int = 12
) -> None:
    """A run of two steps; from the second on what has an odd value is off by one, and so is all behind it."""

    def event(step: int, site: str, subject: str, value: float) -> Event:
        array = np.full(3, value + (step and subject in odd), np.float32)
        digest = blobs_of(str(folder), name).put(array).digest
        data = {"subject": subject, "call": 0, "digest": digest, "shape": [3], "dtype": "float32"}
        return Event("tensor", step, f"{prefix}{site}" if site else site, data=data)

    modules = [ModuleInfo(f"{prefix}{site}", "Dense", order) for order, site in enumerate(("one", "two"))]
    with open_store(str(folder)) as store:
        writer = store.begin_run(name, run_id=name)
        writer.write_structure(Structure(modules=tuple(modules)))
        for step in range(steps):
            writer.write([StepRecord(step, float(step), events=tuple(event(step, *one) for one in STEP[:of]))])
        writer.close()


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line[:1].isdigit() and " of 3 " in line]


def test_the_tensors_that_differ_come_in_the_order_of_the_step_and_equal_ones_are_counted(
    command: Callable, tmp_path: Path
) -> None:
    dumped(tmp_path, "first")
    dumped(tmp_path, "second", frozenset({"activation", "activation_grad", "gradient"}))
    told = command("compare", "first", "second", "--tensors", "--store", tmp_path)
    found = [(int(row[0]), row[1], row[2]) for row in rows(told.out)]
    differing = [(1, site, subject) for site, subject, _ in IN_ORDER if subject not in ("input", "weight")]
    assert found == [(step, site or "(model)", subject) for step, site, subject in differing]
    assert "7 of 24 tensors differ; 17 are equal; --all lists all" in told.out
    assert told.code == 1
    told = command("compare", "first", "second", "--tensors", "--all", "--store", tmp_path)
    assert [(row[1], row[2]) for row in rows(told.out)][12:] == [
        (("(model)" + site) if site[:1] in ("", "[") else site, subject) for site, subject, _ in IN_ORDER
    ]
    assert "--all" not in told.out


def test_runs_whose_tensors_are_all_equal_need_one_line(command: Callable, tmp_path: Path) -> None:
    dumped(tmp_path, "first")
    told = command("compare", "first", "first", "--tensors", "--store", tmp_path)
    assert (told.code, told.out) == (0, "all 24 tensors that both have dumped are equal; --all lists all\n")
    assert (
        len(json.loads(command("compare", "first", "first", "--tensors", "--json", "--store", tmp_path).out)["tensors"])
        == 24
    )


def test_a_single_tensor_is_not_all_of_them(command: Callable, tmp_path: Path) -> None:
    dumped(tmp_path, "first", steps=1, of=1)
    told = command("compare", "first", "first", "--tensors", "--store", tmp_path)
    assert told.out == "the one tensor that both have dumped is equal; --all lists all\n"


def test_inputs_of_renamed_modules_are_paired_as_their_outputs_are(command: Callable, tmp_path: Path) -> None:
    dumped(tmp_path, "first")
    dumped(tmp_path, "wrapped", prefix="module.")
    told = command("compare", "first", "wrapped", "--tensors", "--store", tmp_path, "--json")
    paired = {one["site"] for one in json.loads(told.out)["tensors"] if one["subject"] == "input"}
    assert {"one[0]", "two[0]"} <= paired


def test_all_is_about_tensors(command: Callable, run_folder: Path) -> None:
    told = command("compare", "digits", "digits", "--all", "--store", run_folder)
    assert (told.code, "--all lists all tensors of --tensors; give both" in told.err) == (2, True)


@pytest.mark.parametrize("count", [40, 41])
def test_of_many_tensors_that_differ_the_first_forty_are_listed(command: Callable, tmp_path: Path, count: int) -> None:
    def record(run: str, value: float) -> StepRecord:
        files = blobs_of(str(tmp_path), run)
        digest = files.put(np.full(2, value, np.float32)).digest
        data = {"subject": "activation", "call": 0, "digest": digest}
        return StepRecord(0, 0.0, events=tuple(Event("tensor", 0, f"layer{at}", data=data) for at in range(count)))

    for run, value in (("first", 1.0), ("second", 2.0)):
        with open_store(str(tmp_path)) as store:
            writer = store.begin_run(run, run_id=run)
            writer.write([record(run, value)])
            writer.close()
    out = command("compare", "first", "second", "--tensors", "--store", tmp_path).out
    assert sum(" of 2 " in line for line in out.splitlines()) == 40
    assert ("the first 40 of which are listed" in out) is (count == 41)
