"""Looks at the processes of the ranks, reads their last words, and reports: while they run, and afterwards."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from ...storage import Store
from ...storage.end_note import note_path, read_note
from ...storage.last_words import LastWord, words_of
from ...storage.process import ProcessState, oom_kills, process_state
from .activity import SILENT_S, Observed
from .analysis import analyse
from .hang_report import HangReport, report_of, several

__all__ = ["Observer", "hang_of_run"]

#: Seconds between the two looks from which the command tells how fast a process reads pages from a disk.
_LOOK_S = 0.4
_ALONE = "this run has no last words: only processes that train together leave them"


class Observer:
    """Looks at the processes of ranks again and again.

    Args:
        end_note: Returns what a fatal signal has left of a rank.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self, end_note: Callable[[int], str] = lambda _: "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._end_note, self._clock = end_note, clock
        self._faults: dict[int, tuple[float, int]] = {}

    @classmethod
    def of_run(cls, url: str, run: str) -> "Observer":
        """Return what looks at the ranks of a run of the store at this URL."""

        def end_note(rank: int) -> str:
            path = note_path(url, run, rank)
            return "" if path is None else read_note(path)

        return cls(end_note)

    def look(self, words: Mapping[int, LastWord]) -> dict[int, Observed]:
        """Return what can be seen of every rank."""
        kills, now = oom_kills(), self._clock()
        found = {}
        for rank, word in words.items():
            state = process_state(word.writer)
            found[rank] = Observed(state, self._fault_rate(rank, state, now), kills)
        return found

    def report(self, words: Mapping[int, LastWord], now: float) -> HangReport:
        """Return who waits for whom.

        Args:
            now: In seconds since 1970.
        """
        return analyse(words, now, self.look(words), {rank: self._end_note(rank) for rank in words})

    def _fault_rate(self, rank: int, state: ProcessState, now: float) -> float:
        then, before = self._faults.get(rank, (now, state.major_faults))
        if rank not in self._faults or now - then > 2 * SILENT_S:
            self._faults[rank] = (now, state.major_faults)
        return (state.major_faults - before) / (now - then) if now > then else 0.0


def hang_of_run(store: Store, run: str, *, now: float | None = None) -> tuple[HangReport, dict[int, LastWord]]:
    """Return the report of a stored run, and its last words: as of now while it runs, else as of its end.

    Args:
        run: Its id, a unique prefix, a name, or `latest`.
        now: In seconds since 1970; by default the present.

    Raises:
        RunNotFound: None or several runs answer to it.
    """
    found = store.find_run(run)
    place = words_of(store.url, store.control_channel(found.id), found.id, found.ranks)
    try:
        words = place.read()
        size = max((word.size for word in words.values()), default=0)
        words |= place.read([rank for rank in range(size) if rank not in words])
        told = [report_of(word.report) for word in words.values() if word.report is not None]
        if found.state != "running" and any(report.culprits for report in told):
            return _as_of_now(max(told, key=_weight), words), words  # who saw the hang knew more than what is left
        if not words:
            return HangReport(words=_ALONE), {}
        observer = Observer.of_run(store.url, found.id)
        stalled = [word for word in words.values() if word.stalled_s > SILENT_S or time.time() - word.at > SILENT_S]
        if now is None and found.state == "running" and stalled:
            observer.look(words)
            time.sleep(_LOOK_S)
            words = place.read(words)
        return observer.report(words, time.time() if now is None else now), words
    finally:
        place.close()


def _weight(report: HangReport) -> tuple[bool, bool, float]:
    """Return the key by which the report is chosen that tells most: a hang, a culprit, and the newest."""
    return report.state in ("hang", "failed"), bool(report.culprits), report.waited_s


def _as_of_now(report: HangReport, words: Mapping[int, LastWord]) -> HangReport:
    """Return a stored report, which says of a rank that was stopped that it is gone where its process is."""
    gone = [rank for rank in report.culprits if rank in words and process_state(words[rank].writer).is_alive is False]
    if report.kind != "stopped" or not gone:
        return report
    return replace(
        report, words=f"{several(gone)} {'is' if len(gone) == 1 else 'are'} gone now. Before: {report.words}"
    )
