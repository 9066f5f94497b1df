"""`mindscope attach` against a training that runs in another thread."""

import io
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import mindscope as ms
import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.probe import TrainingStopped
from mindscope.probe import watch_session as beginning
from mindscope.storage.control_channel import requested_settings


class Training(threading.Thread):
    """Steps until it is told to stop, or the test is over."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.model = nn.Dense(4, 2, key=Key(0)).set_train()
        self.optimizer = nn.SGD(self.model.trainable_params(), 1e-3)
        self.monitor = ms.watch(self.model, self.optimizer, store=folder, run="live")
        self.over = threading.Event()
        self.stopped: TrainingStopped | None = None

    def run(self) -> None:
        x = Tensor(np.ones((2, 4), np.float32))
        try:
            with self.monitor:
                while not self.over.is_set():
                    ops.square(self.model(x)).mean().backward()
                    self.optimizer.step()
                    self.optimizer.zero_grad()
        except TrainingStopped as error:
            self.stopped = error


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Training]:
    monkeypatch.setattr(beginning, "LOOK_S", 0.0)
    thread = Training(tmp_path)
    thread.start()
    yield thread
    thread.over.set()
    thread.join(30)


def test_a_training_is_halted_looked_into_stepped_and_stopped(
    command: Callable, training: Training, tmp_path: Path
) -> None:
    def told(do: str, *more: object) -> dict:
        return json.loads(command("attach", "live", "--store", tmp_path, "--json", "--do", do, *more).out)

    paused = told("pause")
    assert paused["state"] == "paused"
    weight = told("show", "--site", "weight")["tensors"]["weight"]
    assert weight["values"] == training.model.weight.numpy().ravel().tolist()
    told("step", "--steps", 2)
    while (state := told("state"))["state"] != "paused":
        pass
    assert state["step"] == paused["step"] + 2
    assert told("stop")["state"] == "stopped"
    training.join(30)
    assert "a person stopped the training" in str(training.stopped)


def test_a_run_that_is_over_cannot_be_attached_to(command: Callable, run_folder: Path) -> None:
    told = command("attach", "digits", "--store", run_folder, "--do", "pause")
    assert told.code == 2
    assert "only a running one can be attached to" in told.err


def test_an_unknown_command_is_wrong_use(command: Callable, run_folder: Path) -> None:
    told = command("attach", "digits", "--store", run_folder, "--do", "halt")
    assert (told.code, told.out) == (2, "")
    assert "must be one of state, pause" in told.err


def test_a_watchpoint_that_is_set_at_the_prompt_joins_those_that_the_run_began_with(
    command: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ms.open_store(tmp_path) as store:
        writer = store.begin_run("live", config={"watchpoints": ["nan @ *"]})
        monkeypatch.setattr("sys.stdin", io.StringIO("watch scalar/loss > 4\nquit\n"))
        told = command("attach", "live", "--store", tmp_path)
        assert "nan @ *\nscalar/loss > 4" in told.out
        (asked,) = requested_settings(store.control_channel(writer.run.id))
        assert asked["watchpoints"] == ["nan @ *", {"when": "scalar/loss > 4", "pause": True}]
        writer.close()


def test_the_state_of_a_running_training_is_how_far_its_run_has_come(
    command: Callable, training: Training, tmp_path: Path
) -> None:
    def told(do: str, *more: object) -> dict:
        return json.loads(command("attach", "live", "--store", tmp_path, "--json", "--do", do, *more).out)

    while told("state")["step"] < 0:
        training.over.wait(0.05)
    shown = told("show")
    assert shown["tensors"]
    while (state := told("state"))["step"] <= shown["step"]:
        training.over.wait(0.05)
    assert (state["state"], state["tensors"]) == ("running", {})


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["--site", "nope.*"], "no parameter matches 'nope.*'; there are weight, bias; --site '*' shows them all"),
        (["--site", "wieght"], "no parameter matches 'wieght'; did you mean 'weight'"),
        (["--subject", "activation"], "--subject must be one of weight, gradient"),
    ],
    ids=["no match", "near", "subject"],
)
def test_what_cannot_be_shown_is_wrong_use(
    command: Callable, training: Training, tmp_path: Path, asked: list[str], words: str
) -> None:
    while "step" not in command("attach", "live", "--store", tmp_path, "--do", "state").out:
        training.over.wait(0.05)  # until the structure is written as well
    told = command("attach", "live", "--store", tmp_path, "--do", "show", *asked)
    assert (told.code, told.out) == (2, "")
    assert words in told.err


def _interrupted(*_: object) -> str:
    raise KeyboardInterrupt


@pytest.mark.parametrize("leave", ["quit", "end of file", "interrupt"])
def test_who_leaves_the_prompt_hears_that_the_training_waits(
    command: Callable, training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leave: str
) -> None:
    command("attach", "live", "--store", tmp_path, "--do", "pause")
    monkeypatch.setattr("sys.stdin", io.StringIO("quit\n" if leave == "quit" else ""))
    if leave == "interrupt":
        monkeypatch.setattr("builtins.input", _interrupted)
    told = command("attach", "live", "--store", tmp_path)
    assert told.code == 0
    assert "the training waits after step" in told.out
    command("attach", "live", "--store", tmp_path, "--do", "continue")


def test_the_prompt_says_what_cannot_be_shown(
    command: Callable, training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("show nope.*\nshow weight activation\nquit\n"))
    told = command("attach", "live", "--store", tmp_path)
    assert "no parameter matches 'nope.*'" in told.out
    assert "show takes one of weight, gradient" in told.out
    assert "the training waits" not in told.out
