"""Judges hangs where the last words of all ranks arrive: in the collector of a stream, through which none reads them.

What a rank that waits does where it can read the words of the others, the collector does as its word arrives: two looks
must agree, and the first waiting rank that is not to blame is the one at whose word the hang is reported.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...storage import Event, StepRecord, Store
from ...storage.last_words import LastWord, words_of
from ..engine import Engine
from ..rules import RULES
from .observation import Observer

__all__ = ["CollectedWords"]

_log = logging.getLogger(__name__)
#: Seconds without progress from which on a word is a reason to look at all, and between two looks at a run, as of the
#: heartbeat (our choice).
_STALL_S, _LOOK_S = 2.0, 2.0


@dataclass(slots=True)
class _Looks:
    """What is known of a run: how its ranks are looked at, when next, and who is suspected and who was told."""

    observer: Observer
    rules: Engine = field(default_factory=lambda: Engine({"hang": RULES["hang"]}))
    due: float = 0.0
    suspicion: tuple[str, tuple[int, ...]] | None = None
    told: tuple[str, tuple[int, ...]] | None = None
    reporter: int = -1


class CollectedWords:
    """Writes collected words beside the runs of a store, and reports hangs that they tell as findings.

    Args:
        store: That the collector fills.
        clock: In seconds, monotonic.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._runs: dict[str, _Looks] = {}

    def take(self, run: str, rank: int, text: str) -> None:
        """Keep the word of a rank, and look at all where the rank stalls."""
        word = LastWord.decode(text)
        place = words_of(self._store.url, self._store.control_channel(run), run, range(word.size))
        try:
            place.write(rank, text)
            looks = self._runs.setdefault(run, _Looks(Observer.of_run(self._store.url, run)))
            if word.stalled_s < _STALL_S and word.phase == "training":
                self._settle(run, looks, word)
            elif self._clock() >= looks.due and word.phase != "finished":
                looks.due = self._clock() + _LOOK_S
                self._look(run, looks, place.read(range(word.size)), rank)
        finally:
            place.close()

    def _look(self, run: str, looks: _Looks, words: Mapping[int, LastWord], rank: int) -> None:
        """Judge the words, as of the newest: those of a collector that is behind are all of before."""
        report = looks.observer.report(words, max(word.at for word in words.values()))
        found = (report.kind, report.culprits) if report.state in ("hang", "failed") else None
        is_lasting, looks.suspicion = found == looks.suspicion, found
        if found is not None and is_lasting and found != looks.told and (report.culprits or looks.told is None):
            looks.told, looks.reporter = found, rank
            self._report(run, looks, Event("hang", report.step, data=report.data()))

    def _settle(self, run: str, looks: _Looks, word: LastWord) -> None:
        """Withdraw the finding where the rank that waited goes on."""
        looks.suspicion = None
        if looks.told is not None and looks.reporter == word.rank:
            looks.told = None
            self._report(run, looks, Event("hang_over", word.step, data={"step": word.step}))

    def _report(self, run: str, looks: _Looks, event: Event) -> None:
        """Write the finding that the rule `hang` makes of the event."""
        _log.warning("run %s: %s", run, event.data.get("words", "the training goes on"))
        self._store.write_findings(run, looks.rules.observe(StepRecord(event.step, time.time(), events=(event,))))
