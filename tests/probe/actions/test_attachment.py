"""A training that a person halts, looks into and lets go; the person is another thread with the same mailbox."""

import threading

import mindscope as ms
import numpy as np
import pytest
from mindscope.probe import TrainingStopped
from mindscope.probe.actions.attachment import Attachment
from mindscope.storage import open_store
from mindscope.storage.control_channel import COMMAND, STATE

from tests.probe.actions.test_in_a_training import batch, engine_training


class View:
    def arrays(self, subject: str):
        yield "head.weight", np.array([[1.0, np.nan], [3.0, np.inf]], np.float32)
        yield "tail.weight", np.zeros((2,))


class Person:
    """Says one thing after the other, each when the training has nothing left to do but wait or look."""

    def __init__(self, *commands: dict) -> None:
        self.store = open_store("memory:")
        self.box = self.store.control_channel("run")
        self.commands = [*commands]
        self.states: list[tuple[str, int]] = []
        self.training = Attachment(self.box, View(), look_s=0.0, sleep=self.say)

    def say(self, _: float = 0.0) -> None:
        state = self.box.read(STATE)
        if state is not None:
            self.states.append((state["state"], state["step"]))
        self.box.post(COMMAND, {"number": 1, **self.commands.pop(0)})


def test_without_a_command_a_training_goes_on() -> None:
    person = Person()
    for step in range(5):
        person.training.step_ended(step)
    assert person.box.read(STATE) is None


def test_a_paused_training_waits_until_it_may_go_on() -> None:
    person = Person({"do": "pause"}, {"do": "continue"})
    person.training.step_ended(0)
    person.say()
    person.training.step_ended(1)
    assert person.states == [("paused", 1)]
    assert person.box.read(STATE)["state"] == "running"
    person.training.step_ended(2)
    assert not person.commands


@pytest.mark.parametrize("steps", [1, 3])
def test_a_training_steps_as_far_as_it_was_told(steps: int) -> None:
    person = Person({"do": "pause"}, {"do": "step", "steps": steps}, {"do": "continue"})
    person.say()
    for step in range(10):
        person.training.step_ended(step)
    assert person.states == [("paused", 0), ("paused", steps)]


def test_steps_are_counted_from_the_one_that_a_watchpoint_has_halted() -> None:
    person = Person({"do": "step", "steps": 2}, {"do": "continue"})
    person.training.wait(7, "a watchpoint")
    for step in (7, 8, 9):  # as the monitor says once the watchpoint has been seen to
        person.training.step_ended(step)
    assert person.states == [("paused", 7), ("paused", 9)]


def test_tensors_are_shown_as_they_are() -> None:
    person = Person(
        {"do": "pause"}, {"do": "show", "subject": "weight", "sites": "head.*", "number": 9}, {"do": "continue"}
    )
    shown = []
    person.say()
    original = person.say
    person.training._sleep = lambda _: (shown.append(person.box.read(STATE)), original())
    person.training.step_ended(0)
    state = shown[-1]
    assert (state["obeyed"], state["state"]) == (9, "paused")
    (tensor,) = state["tensors"].values()
    assert (tensor["shape"], tensor["min"], tensor["max"], tensor["nans"], tensor["infs"]) == ([2, 2], 1.0, 3.0, 1, 1)
    assert [str(one) for one in tensor["values"]] == ["1.0", "nan", "3.0", "inf"]


def test_activations_are_not_kept_and_it_says_so() -> None:
    person = Person({"do": "show", "subject": "activation"})
    person.say()
    person.training.step_ended(0)
    assert "weight and gradient are" in person.box.read(STATE)["tensors"]["error"]


@pytest.mark.parametrize("command", [{"do": "step", "steps": "many"}, {"number": "first", "do": "fly"}, {"do": None}])
def test_a_command_that_nobody_understands_does_not_end_the_training(command: dict) -> None:
    person = Person(command, {"do": "continue"})
    person.say()
    for step in range(3):
        person.training.step_ended(step)


def test_a_tensor_that_cannot_be_shown_says_why_and_does_not_end_the_training() -> None:
    class Sparse:
        def arrays(self, subject: str):
            raise NotImplementedError("no dense values")
            yield

    person = Person({"do": "show"})
    person.training._view = Sparse()
    person.say()
    person.training.step_ended(0)
    assert person.box.read(STATE)["tensors"] == {"error": "NotImplementedError: no dense values"}


def test_a_person_may_end_a_training() -> None:
    person = Person({"do": "stop"})
    person.say()
    with pytest.raises(TrainingStopped, match="after step 4"):
        person.training.step_ended(4)
    assert person.box.read(STATE)["state"] == "stopped"


def test_a_command_that_was_there_before_the_training_is_not_for_it() -> None:
    box = open_store("memory:").control_channel("run")
    box.post(COMMAND, {"do": "stop", "number": 1})
    Attachment(box, View(), look_s=0.0).step_ended(0)


def test_a_real_training_waits_at_a_watchpoint_and_loses_no_bit(tmp_path) -> None:
    _, _, step, weights = engine_training()
    for number in (0, 1, 2):
        step(batch(number))
    alone = weights()
    model, optimizer, step, weights = engine_training()
    watch = {"when": "update/l2_norm @ 0.weight > 0", "name": "moves", "pause": True}
    monitor = ms.watch(model, optimizer, store=tmp_path, run="r", config={"watchpoints": [watch]})
    paused, seen = threading.Event(), []

    def release() -> None:
        with ms.open_store(tmp_path) as store:
            box = store.control_channel(monitor.run.id)
            while (state := box.read(STATE)) is None or state["state"] != "paused":
                threading.Event().wait(0.01)
            seen.append((state["step"], state["why"]))
            paused.set()
            box.post(COMMAND, {"number": 1, "do": "continue"})

    person = threading.Thread(target=release, daemon=True)
    person.start()
    for number in (0, 1, 2):
        step(batch(number))
    assert paused.is_set()
    person.join(30)
    monitor.close()
    assert seen[0][0] == 0
    assert "watchpoint/moves" in seen[0][1]
    assert weights() == alone
