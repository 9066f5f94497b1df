"""What a person says to a training, and hears of it."""

from mindscope.storage import Store, open_store
from mindscope.storage.control_channel import STATE, TrainingState, send, state_of, wait_for


def test_commands_are_numbered_one_after_the_other(store: Store) -> None:
    box = store.control_channel("run")
    assert [send(box, "pause"), send(box, "step", steps=3), send(box, "continue")] == [1, 2, 3]
    assert box.read("command") == {"number": 3, "do": "continue", "steps": 1, "subject": "weight", "sites": "*"}


def test_a_training_that_never_spoke_is_taken_to_run(store: Store) -> None:
    assert state_of(store.control_channel("run")) == TrainingState("running", -1)


def test_who_waits_hears_of_the_very_command(store: Store) -> None:
    box = store.control_channel("run")
    number = send(box, "pause")
    answers = iter([{"state": "running", "step": 4}, {"state": "paused", "step": 5, "obeyed": number}])
    state = wait_for(box, number, 60.0, sleep=lambda _: box.post(STATE, next(answers)))
    assert state == TrainingState("paused", 5, "", number)


def test_who_waits_in_vain_is_told_after_the_time() -> None:
    box = open_store("memory:").control_channel("run")
    times = iter(range(100))
    assert wait_for(box, send(box, "pause"), 3.0, clock=lambda: float(next(times)), sleep=lambda _: None) is None
