"""The heartbeat says what its rank does, reports a hang once, and never harms the training."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from mindscope.probe.heartbeat import Heartbeat, Judgement, Pace
from mindscope.probe.process_load import LoadMeter, _frames, stacks
from mindscope.probe.recording.collective_ring import CollectiveRing
from mindscope.storage import Event
from mindscope.storage.errors import StoreUnavailable
from mindscope.storage.last_words import CollectiveCall, FolderWords, LastWord, PassUse


@dataclass
class Communication:
    ring: CollectiveRing = field(default_factory=CollectiveRing)
    rank: int = 0
    size: int = 2
    native: tuple[CollectiveCall, ...] = ()

    def native_calls(self) -> tuple[CollectiveCall, ...]:
        return self.native

    def passes(self) -> tuple[PassUse, ...]:
        return ()


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def a_heartbeat(words: object, reported: list[Event], judge: object = None, **more: object) -> Heartbeat:
    communication = Communication(**more)  # type: ignore[arg-type]
    heartbeat = Heartbeat(words, communication, lambda: 3, judge=judge, report=reported.append)  # type: ignore[arg-type]
    heartbeat.start()
    return heartbeat


def test_the_pace_is_known_after_some_steps_and_a_long_one_hardly_moves_it() -> None:
    pace = Pace()
    assert pace.limit_s == 30.0
    for step in range(10):
        pace.see(step, step * 2.0)
    pace.see(10, 100.0)
    assert pace.step_s == 2.0
    assert pace.limit_s == 20.0


def test_a_stalled_rank_says_where_it_waits_and_an_ended_one_that_it_has_ended(tmp_path: Path) -> None:
    words = FolderWords(tmp_path, "run")
    heartbeat = a_heartbeat(words, [])
    ring = heartbeat._communication.ring
    assert ring.is_on
    slot = ring.begin("all_reduce", "world", [(4,)], "float32")
    until(lambda: (read := words.read()) and read[0].threads)
    word = words.read()[0]
    assert word.open_call is not None
    assert word.open_call.operation == "all_reduce"
    assert word.main_thread is not None
    assert any(file == __file__ for file, _, _ in word.main_thread.frames)
    assert not any(stack.name.startswith("mindscope") for stack in word.threads)
    ring.end(slot)
    assert heartbeat.end(None) == ()
    assert FolderWords(tmp_path, "run").read()[0].phase == "finished"
    assert not ring.is_on


def test_a_hang_is_reported_once_and_withdrawn_when_the_training_goes_on(tmp_path: Path) -> None:
    reported: list[Event] = []
    looks: list[Mapping[int, LastWord]] = []

    def judge(words: Mapping[int, LastWord], _: float) -> Judgement:
        looks.append(words)
        return Judgement(is_hang=True, is_named=True, reporter=0, data={"words": "rank 1 sleeps", "step": 3})

    heartbeat = a_heartbeat(FolderWords(tmp_path, "run"), reported, judge)
    heartbeat._pace._durations.append((0.01, 1))
    heartbeat._pace._steps = 100
    ring = heartbeat._communication.ring
    slot = ring.begin("all_reduce", "world")
    until(lambda: len(looks) > 2)
    assert [event.kind for event in reported] == ["hang"]
    assert looks[0][0].open_call is not None
    ring.end(slot)
    until(lambda: len(reported) == 2)
    assert reported[1].kind == "hang_over"
    heartbeat.end(None)


def test_a_hang_that_lasts_is_told_ever_more_rarely_and_at_once_where_another_is_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Event] = []
    looks: list[int] = []
    culprits = [1]

    def judge(_: Mapping[int, LastWord], __: float) -> Judgement:
        looks.append(len(looks))
        words = f"rank {culprits[0]} sleeps, for {len(looks)} s"  # other words each time
        data = {"words": words, "kind": "sleep", "culprits": list(culprits)}
        return Judgement(is_hang=True, is_named=True, reporter=0, data=data)

    monkeypatch.setattr("mindscope.probe.heartbeat._AGAIN_S", 1.0)
    heartbeat = a_heartbeat(FolderWords(tmp_path, "run"), reported, judge)
    heartbeat._pace._durations.append((0.01, 1))
    heartbeat._pace._steps = 100
    heartbeat._communication.ring.begin("all_reduce", "world")
    until(lambda: len(looks) > 4)
    assert len(reported) == 1
    culprits[0] = 2
    until(lambda: len(reported) == 2)
    told = len(looks)
    until(lambda: len(reported) == 3)
    assert len(looks) - told > 4  # twice a second, for as long as the hang has lasted
    heartbeat.end(None)


def test_another_rank_that_is_to_report_it_keeps_this_one_silent_and_an_error_is_explained(tmp_path: Path) -> None:
    def judge(words: Mapping[int, LastWord], _: float) -> Judgement:
        return Judgement(is_hang=True, is_named=True, reporter=5, data={"words": words[0].error})

    heartbeat = a_heartbeat(FolderWords(tmp_path, "run"), [], judge)
    ring = heartbeat._communication.ring
    ring.end(ring.begin("all_reduce", "world"), "failed")
    (event,) = heartbeat.end(_raised())
    assert any(file == __file__ and name == "_raised" for file, _, name in _main_frames(tmp_path))
    assert event.data == {"words": "RuntimeError: Connection closed by peer"}
    assert heartbeat.end(None) == ()


def _raised() -> BaseException:
    def fail() -> None:
        raise RuntimeError("Connection closed by peer")

    try:
        fail()
    except RuntimeError as error:
        return error


def _main_frames(folder: Path) -> tuple[tuple[str, int, str], ...]:
    stack = FolderWords(folder, "run").read()[0].main_thread
    assert stack is not None
    return stack.frames


def test_a_store_that_refuses_and_a_judge_that_raises_end_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing:
        interval_s = 0.0

        def write(self, rank: int, text: str) -> None:
            raise StoreUnavailable("the disk is full")

        def read(self, ranks: object = None) -> dict[int, LastWord]:
            raise RuntimeError("on purpose")

        def close(self) -> None:
            return

    heartbeat = a_heartbeat(Refusing(), [], lambda *_: None)
    heartbeat._pace._durations.append((0.01, 1))
    heartbeat._pace._steps = 100
    heartbeat._communication.ring.begin("all_reduce", "world")
    until(lambda: heartbeat.guard.is_off)
    assert heartbeat.end(None) == ()
    assert "cannot be written" in caplog.text
    assert "the heartbeat failed" in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_neither_beats_nor_ends_the_heartbeat(tmp_path: Path) -> None:
    words = FolderWords(tmp_path, "run")
    heartbeat = a_heartbeat(words, [])
    until(words.read)
    child = os.fork()
    if child == 0:
        is_quiet = heartbeat.end(None) == () and not heartbeat._thread.is_alive()
        os._exit(0 if is_quiet else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert words.read()[0].phase == "training"
    heartbeat.end(None)


def test_the_load_tells_who_works_from_who_sleeps() -> None:
    meter, is_over = LoadMeter(), threading.Event()
    meter.measure()
    time.sleep(0.3)
    assert meter.measure().processor < 0.2
    meter.forget()
    worker = threading.Thread(target=lambda: [sum(range(1000)) for _ in iter(is_over.is_set, True)])
    worker.start()
    meter.measure()
    until(lambda: meter.measure().processor > 0.05)
    is_over.set()
    worker.join()


def test_stacks_begin_with_the_main_thread() -> None:
    first = stacks()[0]
    assert first.is_main
    assert first.frames[0][2] == "test_stacks_begin_with_the_main_thread"
    assert "stacks()" in first.code


def test_a_frame_between_two_lines_has_line_zero() -> None:
    class Frame:
        f_code = until.__code__
        f_lineno = None
        f_back = None

    assert _frames(Frame()) == ((__file__, 0, "until"),)  # type: ignore[arg-type]


def test_what_the_heartbeat_itself_reads_is_no_load_of_the_rank(tmp_path: Path) -> None:
    file = tmp_path / "words"
    file.write_bytes(bytes(8 << 20))
    meter = LoadMeter()
    meter.measure()
    for _ in range(4):
        file.read_bytes()
    assert meter.measure().read_write < 2**20


def test_the_pace_is_the_median_of_steps_and_not_of_looks() -> None:
    pace = Pace()
    for step, now in ((0, 0.0), (1, 5.0), (13, 5.5), (25, 6.0)):
        pace.see(step, now)
    assert pace.step_s < 0.05
