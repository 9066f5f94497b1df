"""A thread that says, twice a second, what this rank communicates and does, and reports a hang that it sees.

It writes beside the store's own path (`storage/last_words.py`), so that a rank that is killed, stopped or stuck leaves
its last word. While the training goes on, a word costs a tenth of a millisecond. Where neither a step nor a collective
has begun or ended for a while, the word also has the stacks of all threads, the load of the process and what PyTorch's
Flight Recorder holds. A rank that waits in a collective for too long reads the words of the others; whose judgement
it is what happens there, `watching.py` decides.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Final, Protocol, TypeVar

from ..storage import Event, Json
from ..storage.errors import StoreUnavailable
from ..storage.last_words import CollectiveCall, LastWord, LastWords, PassUse, longest_wait_s
from ..storage.process import identity, oom_kills
from .guard import Guard
from .process_load import LoadMeter, children, raised_in, stacks
from .recording.collective_ring import CollectiveRing

__all__ = ["Communication", "Heartbeat", "Judge", "Judgement", "Pace"]

_log = logging.getLogger(__name__)
_Part = TypeVar("_Part")
#: Seconds between two beats.
_BEAT_S: Final = 0.5
#: Calls in the word of a rank that goes on, and of one that stalls.
_FEW_CALLS, _MOST_CALLS = 64, 256
#: Seconds without progress from which on a word says more, and between two looks at the Flight Recorder.
_STALL_S, _NATIVE_S = 2.0, 5.0
#: Of many ranks, only the first so many look at the words of all, and so many words a second each; the others look
#: after so many seconds more, when all of these are gone (our choice: a shared disk serves some thousand small reads).
_LOOKERS, _READS_S, _LOOKERS_S = 16, 256.0, 30.0
#: Up to so many ranks all look as soon as they stall.
_FEW: Final = 16
#: Steps that a training must have ended before its pace is known.
_KNOWN: Final = 3
#: Steps between two looks that count: the first step of a training, which is long, is one of few looks at first.
_MOST_WEIGHT: Final = 16
#: At the end of a training that a collective's error ended: how long its cause is looked for, and between two looks.
_LAST_S, _LAST_WAIT_S = 1.5, 0.1
#: Seconds after which a hang that lasts is told again, at first; then each time as long as it has lasted (our choice).
_AGAIN_S: Final = 15.0
#: How long the end of a training waits for the last word.
_END_S: Final = 3.0


class Communication(Protocol):
    """What a framework's adapter knows of the communication of this process."""

    @property
    def ring(self) -> CollectiveRing:
        """The newest collectives."""

    @property
    def rank(self) -> int:
        """Which one this process is."""

    @property
    def size(self) -> int:
        """How many ranks there are."""

    def native_calls(self) -> tuple[CollectiveCall, ...]:
        """Return what the framework's own recorder holds; nothing where it has none."""

    def passes(self) -> tuple[PassUse, ...]:
        """Return which lines take batches or run forward passes, and which steps took more than usual."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a rank concludes from all last words.

    Args:
        is_hang: Whether people must be told.
        is_named: Whether a culprit is named.
        reporter: The rank that is to report it; the others keep silent.
        data: The report.
    """

    is_hang: bool
    is_named: bool
    reporter: int
    data: Mapping[str, Json]


#: Judges the words of all ranks at a time, in seconds since 1970.
Judge = Callable[[Mapping[int, LastWord], float], Judgement]


class Pace:
    """The median duration of a step, from what a clock that looks now and then sees of the step's number."""

    def __init__(self) -> None:
        self._step, self._since = -1, 0.0
        self._durations: deque[tuple[float, int]] = deque(maxlen=64)
        self._steps = 0

    def see(self, step: int, now: float) -> None:
        """Note the number of the step in progress."""
        if self._step >= 0 and step > self._step:
            self._durations.append(((now - self._since) / (step - self._step), step - self._step))
            self._steps += step - self._step
        if step != self._step:
            self._step, self._since = step, now

    @property
    def step_s(self) -> float:
        """The median duration in seconds, of steps rather than of looks; 0 while too few steps have ended."""
        if self._steps < _KNOWN:
            return 0.0
        return median_low([duration for duration, steps in self._durations for _ in range(min(steps, _MOST_WEIGHT))])

    @property
    def limit_s(self) -> float:
        """Return from when on a wait for a collective is too long."""
        return longest_wait_s(self.step_s)


class Heartbeat:
    """Says the last word of this rank until the training ends.

    Args:
        words: Where the words of the run are.
        communication: Of this process.
        step: Returns the step in progress.
        judge: Judges the words of all ranks; None if nobody looks at hangs.
        report: Receives the event of a hang, at once.
    """

    def __init__(
        self,
        words: LastWords,
        communication: Communication,
        step: Callable[[], int],
        *,
        judge: Judge | None,
        report: Callable[[Event], None],
    ) -> None:
        self._words, self._rank, self._communication = words, communication.rank, communication
        self._ring = communication.ring
        self._step, self._judge, self._report = step, judge, report
        self.guard = Guard(self._give_up, lambda: "the heartbeat failed: hangs of this rank are not explained")
        self._pid, self._writer, self._oom_kills = os.getpid(), identity(), oom_kills()
        self._pace, self._meter = Pace(), LoadMeter()
        self._progress: tuple[int, ...] = ()
        self._since = time.monotonic()
        self._native: tuple[CollectiveCall, ...] = ()
        self._native_at = self._said_at = 0.0
        self._looks_at = 0.0
        self._suspicion: tuple[object, object] | None = None
        self._is_refused = False
        self._told: Mapping[str, Json] | None = None
        self._tells_again_at = 0.0
        self._error: BaseException | None = None
        self._last: tuple[Event, ...] = ()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mindscope-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to beat, and to note collectives."""
        self._ring.switch_on(self._step)
        self._thread.start()

    def end(self, error: BaseException | None) -> tuple[Event, ...]:
        """Say how the training ended; return what is to be reported of it.

        Its own thread does it, so that a disk that hangs holds the end of the training for some seconds only.
        """
        if os.getpid() != self._pid or self._stop.is_set():
            return ()
        self._error = error
        self._stop.set()
        self._thread.join(timeout=_END_S)
        self.release()
        return self._last

    def release(self) -> None:
        """Stop in a fork of the process that trains: it has no heartbeat's thread, and locks may be held for ever."""
        self._ring.switch_off(self._step)
        self._words.close()

    def _run(self) -> None:
        beat = self.guard(self._beat)
        while not self._stop.wait(_BEAT_S) and not self.guard.is_off:
            beat()
        if os.getpid() == self._pid:
            self._last = self.guard(self._conclude, otherwise=())(self._error)

    def _beat(self) -> None:
        now, step = time.monotonic(), self._step()
        self._pace.see(step, now)
        progress = (step, self._ring.begun, self._ring.ended)
        if progress != self._progress:
            self._progress, self._since = progress, now
            self._meter.forget()
        stalled_s = now - self._since
        if stalled_s < _STALL_S:
            self._native, self._native_at = (), 0.0
            self._suspicion = None
            self._settle(step)
            if now - self._said_at >= self._words.interval_s:
                self._said_at = now
                self._say(self._brief(stalled_s))
            return
        if now - self._said_at < self._words.interval_s - _BEAT_S / 2:
            return
        word = self._full(stalled_s, now)
        if self._progress != (self._step(), self._ring.begun, self._ring.ended):
            return  # parts of the word are of before, and parts of after
        self._said_at = now
        self._say(word)
        if self._judge is not None and now >= self._looks_at:
            self._look_if_due(self._judge, stalled_s, now)

    def _look_if_due(self, judge: Judge, stalled_s: float, now: float) -> None:
        """Look at the words of all, the later and the less often the more ranks there are."""
        size, limit_s = self._communication.size, self._pace.limit_s
        self._looks_at = now + max(_BEAT_S, self._words.interval_s, size / _READS_S)
        begins_s = _STALL_S if size <= _FEW else limit_s if self._rank < _LOOKERS else limit_s + _LOOKERS_S
        if stalled_s > begins_s:
            self._look(judge)

    def _brief(self, stalled_s: float) -> LastWord:
        ring = self._ring
        return LastWord(
            rank=self._rank,
            size=self._communication.size,
            writer=self._writer,
            at=time.time(),
            step=self._step(),
            step_s=self._pace.step_s,
            stalled_s=stalled_s,
            groups=ring.groups(),
            calls=ring.calls(_FEW_CALLS),
            sites=ring.sites(),
            passes=self._part(self._communication.passes),
            oom_kills=self._oom_kills,
            report=self._told,
        )

    def _full(self, stalled_s: float, now: float) -> LastWord:
        load = self._meter.measure()
        if now - self._native_at > _NATIVE_S:
            self._native, self._native_at = self._part(self._communication.native_calls), now
        return replace(
            self._brief(stalled_s),
            calls=self._ring.calls(_MOST_CALLS),
            native=self._native,
            threads=self._part(stacks),
            processor=load.processor,
            read_write=load.read_write,
            major_faults=load.major_faults,
            children=self._part(children),
        )

    def _part(self, read: Callable[[], tuple[_Part, ...]]) -> tuple[_Part, ...]:
        """Return a part of the word; nothing where it cannot be had, which is told once."""
        try:
            return read()
        except Exception as error:  # noqa: BLE001  the rest of the word is worth more
            self.guard.tell("a part of the last word is missing", error)
            return ()

    def _give_up(self, error: BaseException) -> None:
        """Say that this rank will say no more."""
        self._say(LastWord(self._rank, self._communication.size, self._writer, time.time(), error=f"{error!r}"[:200]))

    def _say(self, word: LastWord) -> None:
        """Write the word; one that the store cannot take now is left out, the next one is newer."""
        text = word.encode()
        try:
            self._words.write(self._rank, text)
        except StoreUnavailable as error:
            if not self._is_refused:
                _log.warning("rank %d: its last word cannot be written: %s", self._rank, error)
            self._is_refused = True

    def _look(self, judge: Judge) -> None:
        """Read what all ranks have said, and report a hang that no other rank is to report.

        Two looks must agree: words that were said at different moments of a training that goes on can seem to differ.
        """
        words = self._words.read(range(self._communication.size))
        found = judge(words, time.time())
        suspicion = _who(found.data) if found.is_hang else None
        is_lasting, self._suspicion = suspicion == self._suspicion, suspicion
        if suspicion is None or not is_lasting or found.reporter != self._rank:
            return
        if self._is_news(found):
            self._told = found.data
            self._report(Event("hang", self._step(), data=found.data))
            _log.warning("rank %d: %s", self._rank, found.data.get("words", ""))

    def _is_news(self, found: Judgement) -> bool:
        """Return whether the hang is to be told now: when it begins or has another culprit, then ever more rarely."""
        now, told = time.monotonic(), self._told
        is_known = told is not None and (not found.is_named or _who(told) == _who(found.data))
        if is_known and now < self._tells_again_at:
            return False
        self._tells_again_at = now + max(_AGAIN_S, now - self._since)
        return True

    def _settle(self, step: int) -> None:
        """Report that the training goes on after a hang was reported."""
        if self._told is not None:
            told, self._told = self._told, None
            self._report(Event("hang_over", step, data={"step": told.get("step", step)}))

    def _conclude(self, error: BaseException | None) -> tuple[Event, ...]:
        """Say the last word; look for the cause where a collective has failed."""
        stalled_s = time.monotonic() - self._since
        text = "" if error is None else f"{type(error).__name__}: {error}"
        word = replace(
            self._brief(stalled_s),
            calls=self._ring.calls(_MOST_CALLS),
            native=() if error is None else self._part(self._communication.native_calls),
            threads=self._part(stacks) if error is None else raised_in(error),
            phase="finished" if error is None else "failed",
            error=text[:500],
        )
        self._say(word)
        if self._judge is None or word.failed_call is None:
            return ()
        time.sleep(_BEAT_S + _LAST_WAIT_S)  # until the others have said what they do now
        end = time.monotonic() + _LAST_S
        while not (found := self._judge(self._words.read(range(word.size)), time.time())).is_named:
            if time.monotonic() > end:
                return ()
            time.sleep(_LAST_WAIT_S)
        self._say(replace(word, report=found.data))
        return (Event("hang", word.step, data=found.data),)


def _who(data: Mapping[str, Json]) -> tuple[object, object]:
    """Return who is to blame for what."""
    return data.get("kind"), data.get("culprits")
