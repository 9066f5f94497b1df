"""What of ours raises inside a training is kept from it; what belongs to the training reaches it."""

import json
import logging
import operator
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from mindscope.probe.errors import Stopped, TrainingStopped
from mindscope.probe.guard import Guard, belongs_to_training, is_ours
from mindscope.probe.recording.scalars import numbers_in
from mindscope.probe.warning_places import CallingPlaces

ROOT = Path(__file__).resolve().parents[2]
ALL = bool(os.environ.get("MINDSCOPE_TEST_ALL"))
KINDS = (RuntimeError, RecursionError, MemoryError, SystemExit, KeyboardInterrupt, GeneratorExit)


def raising(kind: type[BaseException]) -> None:
    raise kind("on purpose")


def caught(work) -> BaseException:
    try:
        work()
    except BaseException as error:  # noqa: BLE001
        return error
    raise AssertionError("nothing was raised")


def a_guard(switched_off=lambda _: None) -> Guard:
    return Guard(switched_off, lambda: "the part failed")


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_of_ours_switches_off_and_is_told_once(kind, caplog):
    seen = []
    guard = a_guard(seen.append)
    work = guard(partial(raising, kind), otherwise=7)
    with caplog.at_level(logging.WARNING):
        assert [work(), work(), guard.attempt(raising, kind, otherwise=8)] == [7, 7, 8]
    assert guard.is_off
    assert [type(error) for error in seen] == [kind]
    assert len(caplog.records) == 1


def test_what_switches_off_may_fail_for_the_same_reason(caplog):
    guard = a_guard(lambda _: raising(MemoryError))
    with caplog.at_level(logging.WARNING):
        assert guard(partial(raising, RuntimeError))() is None
    assert guard.is_off


@pytest.mark.parametrize("error", [TrainingStopped("asked for"), Stopped(0)], ids=["training", "script"])
def test_an_end_that_was_asked_for_reaches_the_training(error):
    guard = a_guard()

    def stop() -> None:
        raise error

    with pytest.raises(type(error)):
        guard(stop)()
    assert not guard.is_off


def test_ctrl_c_during_our_code_reaches_the_training():
    guard = a_guard()
    with pytest.raises(KeyboardInterrupt):
        guard(lambda: signal.raise_signal(signal.SIGINT))()
    assert not guard.is_off
    assert not belongs_to_training(caught(partial(raising, KeyboardInterrupt)))


@pytest.mark.parametrize("kind", [SystemExit, TimeoutError, KeyboardInterrupt])
def test_what_the_scripts_handler_of_a_signal_raises_reaches_the_training(kind):
    guard = a_guard()
    before = signal.signal(signal.SIGTERM, lambda *_: raising(kind))
    try:
        with pytest.raises(kind):
            guard(lambda: signal.raise_signal(signal.SIGTERM))()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not guard.is_off


def test_a_thread_gets_no_signal():
    found = []
    thread = threading.Thread(target=lambda: found.append(caught(partial(raising, KeyboardInterrupt))))
    thread.start()
    thread.join()
    assert not belongs_to_training(found[0])


def test_a_check_tells_what_our_code_raises_and_not_what_a_model_does(caplog):
    guard = a_guard()
    with caplog.at_level(logging.WARNING):
        with guard.quietly():
            raising(RuntimeError)
        assert not caplog.records
        with guard.quietly():
            numbers_in(None)  # type: ignore[arg-type]  # fails in its own frame
        assert len(caplog.records) == 1
    assert not guard.is_off
    assert not is_ours(caught(partial(raising, RuntimeError)))


class HandsOn:
    """A class of torch's protocol, as if it were ours."""

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        if types == ():
            raise RuntimeError("mine")
        return function(*arguments, **(keywords or {}))


@pytest.mark.parametrize(("types", "is_mine"), [((int,), False), ((), True)])
def test_what_a_mode_hands_on_raises_for_the_program(monkeypatch, types, is_mine):
    monkeypatch.setattr("mindscope.probe.guard.OUR_FILES", __file__)
    error = caught(partial(HandsOn().__torch_function__, operator.truediv, types, (1, 0)))
    assert is_ours(error) is is_mine


def test_what_a_mode_calls_from_the_programs_line_raises_for_the_program():
    places = CallingPlaces(raising.__code__)
    assert not is_ours(caught(lambda: places.call(operator.truediv, (1, 0), {})))


def test_an_error_at_the_end_of_the_stack_is_told_later(caplog):
    guard = a_guard()

    def dig() -> None:
        dig()

    with caplog.at_level(logging.WARNING):
        assert guard(dig)() is None
        guard.tell_late()
    assert len(caplog.records) == 1


#: Figures of the campaign that say that a training was harmed.
HARM = ("trainings_ended", "trainings_that_differ", "runs_in_another_state")


@pytest.mark.timeout(7200 if ALL else 600)
def test_no_function_of_ours_that_raises_ends_or_changes_a_training():
    """The sampled campaign draws some trials of two trainings; the complete one tries every function."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    drawn = () if ALL else ("--training", "mlp, watch", "--training", "raw, run", "--most", "10", "--folder", "probe")
    command = [sys.executable, "benchmarks/reliability", "--part", "guard", "--json", *drawn]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)["results"]
    assert [row for row in rows if row["metric"] in HARM and row["value"]] == []
    assert sum(row["value"] for row in rows if row["metric"] == "trials") >= 5
