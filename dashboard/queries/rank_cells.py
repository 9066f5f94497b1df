"""What is drawn of every rank in the picture of a job: what it is doing, how long it works, and whether it differs."""

import html
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ...insight.event_fields import number
from ...insight.hangs.hang_report import HangReport, several
from ...insight.hangs.observation import hang_of_run
from ...insight.hangs.rank_states import STATES, RankState, rank_states
from ...insight.newest_work import NewestWork, newest_work
from ...insight.rank_verdict import RANK_CAUSES, rank_outliers
from ...storage import Event, Run
from ...storage.last_words import LastWord
from ...storage.ranks.topology import BLOCKS, HOST, Topology, read_places
from .rank_grid import RankGrid
from .rank_view import RankView
from .reader import Reader

__all__ = ["COLOURINGS", "Colouring", "JobRanks", "hang_now", "hover_words", "job_ranks", "usual_colouring"]

Colouring = Literal["state", "work", "divergence"]
COLOURINGS: Final[tuple[Colouring, ...]] = ("state", "work", "divergence")
#: Whether a rank's values differ from those of the others: by a finding, or as an outlier.
AGREES, STANDS_OUT, DIFFERS = range(3)
#: What findings are called that say so.
_DIFFERENCES: Final = frozenset(RANK_CAUSES) - {"straggler", "rank_dropped"}
#: Seconds for which a look at the processes of the ranks is shown to all viewers: it costs half a second.
_KEPT_S: Final = 2.0
#: The same for the places of ranks, which another start of the training changes.
_SAME_S: Final = 60.0
#: Ranks of a cell that are listed.
_LISTED: Final = 12


@dataclass(frozen=True, slots=True, eq=False)
class JobRanks:
    """All ranks of a job.

    Args:
        ranks: `(n,)`.
        states: What each is doing.
        work: How long each works; None where that was not recorded.
        divergence: `(n,)`, `AGREES`, `STANDS_OUT` or `DIFFERS`.
        reasons: Why a rank differs or stands out.
        culprits: The ranks to look at first.
        places: Host, process and device of ranks that recorded them.
        groups: The ranks of the process groups of each rank that recorded them, by name.
    """

    ranks: NDArray[np.int64]
    states: Mapping[int, RankState]
    work: NewestWork | None
    divergence: NDArray[np.int64]
    reasons: Mapping[int, str]
    culprits: tuple[int, ...]
    places: Mapping[int, str]
    groups: Mapping[int, Mapping[str, Sequence[int]]]
    topology: Topology

    @property
    def state_codes(self) -> NDArray[np.int64]:
        """The state of each rank, by its number in `STATES`: `(n,)`."""
        return np.array([STATES.index(self.states[rank].state) for rank in self.ranks.tolist()], dtype=np.int64)

    @property
    def work_ratio(self) -> NDArray[np.float64]:
        """The work of each rank as a multiple of the median, NaN where it is not known: `(n,)`."""
        return np.full(len(self.ranks), np.nan) if self.work is None else self.work.ratio[self.ranks]


def hang_now(reader: Reader, run: Run) -> tuple[HangReport, Mapping[int, LastWord]]:
    """Return the hang of a run and its last words, looked at in the last two seconds."""

    def look() -> tuple[HangReport, Mapping[int, LastWord]]:
        return reader.read(lambda store: hang_of_run(store, run.id))

    return reader.shared(("hang", run.id, run.state), look, for_s=_KEPT_S)


def job_ranks(reader: Reader, run: Run, view: RankView) -> JobRanks:
    """Return all ranks of a run as they are now.

    Args:
        run: With all of its ranks, which the view may have fewer of.
    """
    topology = view.topology
    is_wide = view.is_wide or bool(topology.axes)
    ranks = np.arange(view.count) if is_wide else np.array(run.ranks, dtype=np.int64)
    report, words = hang_now(reader, run)
    states = rank_states(ranks.tolist(), words, report, time.time(), is_over=run.state != "running")
    work = reader.cached(run.id, "newest-work", lambda store: newest_work(store, run, topology))
    divergence, reasons = reader.cached(run.id, "rank-divergence", lambda _: _divergence(reader, run, ranks))
    named = () if view.verdict.rank is None or view.verdict.tone not in ("bad", "watch") else (view.verdict.rank,)
    places = _places(reader, run)
    culprits = report.culprits if report.state != "none" and report.culprits else named
    groups = {rank: _groups_of(event) for rank, event in places.items()}
    told = {rank: _place_words(event) for rank, event in places.items()}
    return JobRanks(ranks, states, work, divergence, reasons, culprits, told, groups, topology)


def _places(reader: Reader, run: Run) -> Mapping[int, Event]:
    def read() -> Mapping[int, Event]:
        return reader.read(lambda store: read_places(store, run.id, run.ranks))

    return reader.shared(("places", run.id, run.ranks), read, for_s=_SAME_S)


def usual_colouring(job: JobRanks) -> Colouring:
    """Return what tells most of the ranks: a hang first, then what makes the training wrong, then time."""
    if (job.state_codes >= STATES.index("waiting")).any():
        return "state"
    if (job.divergence == DIFFERS).any():
        return "divergence"
    if np.isfinite(job.work_ratio).any():
        return "work"
    return "divergence" if job.divergence.any() else "state"


def _divergence(reader: Reader, run: Run, ranks: NDArray[np.int64]) -> tuple[NDArray[np.int64], Mapping[int, str]]:
    found: dict[int, tuple[int, str]] = {}
    for event in reader.read(lambda store: rank_outliers(store, run)):
        words = f"{event.data.get('metric')} stands out at step {event.step:,}"
        found[int(number(event, "rank"))] = (STANDS_OUT, words)
    for finding in reader.findings(run.id):
        if (
            finding.cause in RANK_CAUSES
            and finding.cause not in ("straggler", "rank_dropped")
            and finding.rank is not None
        ):
            found[finding.rank] = (DIFFERS, f"{finding.explanation}, since step {finding.first_step:,}")
    codes = np.array([found.get(rank, (AGREES, ""))[0] for rank in ranks.tolist()], dtype=np.int64)
    return codes, {rank: words for rank, (_, words) in found.items()}


def _place_words(place: Event) -> str:
    """Return host, process and device in words."""
    node, pid, device = (place.data.get(name) for name in ("node", "pid", "device"))
    return ", ".join(f"{part}" for part in (node, f"pid {pid}" if pid else "", device) if part)


def _groups_of(place: Event) -> dict[str, Sequence[int]]:
    groups = place.data.get("groups")
    return {
        name: [rank for rank in members if isinstance(rank, int)]
        for name, members in (groups.items() if isinstance(groups, dict) else ())
        if isinstance(members, list)
    }


def hover_words(job: JobRanks, grid: RankGrid) -> dict[int, str]:
    """Return what is said of each cell under the pointer, by its number."""
    groups, codes, ratio = _group_words(job), job.state_codes, job.work_ratio
    rank_of_cell: dict[int, list[int]] = {}
    for at, cell in enumerate(grid.cells.tolist()):
        rank_of_cell.setdefault(cell, []).append(at)
    return {
        cell: _of_one(job, at[0], groups) if len(at) == 1 else _of_several(job, np.array(at), codes, ratio)
        for cell, at in rank_of_cell.items()
    }


def _of_one(job: JobRanks, at: int, groups: Callable[[int], Sequence[str]]) -> str:
    rank = int(job.ranks[at])
    state = job.states[rank]
    place = job.places.get(rank) or job.topology.where(rank).partition(",")[0]
    lines = [f"<b>rank {rank}</b>{', ' if place else ''}{html.escape(place)}", *map(html.escape, groups(rank))]
    lines.append(html.escape(state.words) if state.words else f"state: {state.state}")
    if job.work is not None and np.isfinite(job.work.work_s[rank]):
        whose = "works" if job.work.is_own[rank] else "its group works a median of"
        lines.append(f"{whose} {job.work.work_s[rank]:.3g} s of a step, {job.work.ratio[rank]:.2f} × the median")
    if rank in job.reasons:
        lines.append(html.escape(job.reasons[rank]))
    return "<br>".join(_wrapped(line) for line in lines)


def _of_several(job: JobRanks, at: NDArray[np.int64], codes: NDArray[np.int64], ratio: NDArray[np.float64]) -> str:
    """Return what is said of a cell of several ranks: how many do what, and which of them works longest.

    Args:
        at: Positions of its ranks.
        codes, ratio: State and work of all ranks.
    """
    ranks = job.ranks[at]
    shown = _listed(ranks.tolist()) if len(ranks) <= _LISTED else f"from {ranks.min():,} to {ranks.max():,}"
    lines = [_wrapped(f"<b>{len(ranks)} ranks</b>: {shown}")]
    counts = [(int((codes[at] == code).sum()), STATES[code]) for code in np.unique(codes[at])[::-1].tolist()]
    lines.append(f"state: {', '.join(f'{count} {state}' for count, state in counts)}")
    if np.isfinite(ratio[at]).any():
        worst = at[int(np.nanargmax(ratio[at]))]
        lines.append(f"longest work: rank {job.ranks[worst]}, {ratio[worst]:.2f} × the median of all")
    told = [f"rank {rank}: {job.reasons[rank]}" for rank in ranks.tolist() if rank in job.reasons]
    return "<br>".join([*lines, *(_wrapped(html.escape(words)) for words in told[:3])])


def _group_words(job: JobRanks) -> Callable[[int], Sequence[str]]:
    """Return a function that names the place of a rank along each axis, and with whom it shares the process group."""
    axes = [axis for axis in job.topology.axes if axis.name not in (BLOCKS, HOST)]
    groups = {axis.name: job.topology.group(axis.name) for axis in axes}
    members: dict[tuple[str, int], str] = {}

    def shared_with(rank: int, name: str) -> str:
        if own := job.groups.get(rank, {}).get(name):
            return _listed(own)
        group = int(groups[name][rank])
        if group >= 0 and (name, group) not in members:
            members[name, group] = _listed(np.flatnonzero(groups[name] == group).tolist())
        return members.get((name, group), "")

    def words(rank: int) -> Sequence[str]:
        known = [axis for axis in axes if rank < len(axis.groups) and axis.groups[rank] >= 0]
        told = [(f"{axis.name} {axis.names[axis.groups[rank]]}", shared_with(rank, axis.name)) for axis in known]
        return [f"{place} of {ranks}" if ranks else place for place, ranks in told]

    return words


def _listed(ranks: Sequence[int]) -> str:
    return several(ranks) if len(ranks) <= _LISTED else f"{len(ranks)} ranks"


def _wrapped(line: str, width: int = 46) -> str:
    """Return a line broken at spaces: the box under the pointer does not break it, and is to fit a phone."""
    parts, rest = list[str](), line
    while len(rest) > width and (at := rest.rfind(" ", 0, width)) > 0:
        parts, rest = [*parts, rest[:at]], rest[at + 1 :]
    return "<br>".join([*parts, rest])
