"""The whole tensors of a run in one line of `mindscope show`: how many, of what, how large, and where."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .spans import Span, merged, steps_in_words

if TYPE_CHECKING:
    from ..storage import Event, Run, Store

#: Events of a rank that are read; the newest.
_ALL: Final = 100_000
#: Sites that are named; the document holds all of them (our choice: a line of a terminal).
_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class Dumped:
    """What a run holds of whole tensors.

    Args:
        count: How often one was stored; equal ones are one file.
        sites: Of which sites, in the order in which they came.
        subjects: And of what there.
        first_step: The step of the oldest, -1 of none.
        last_step: The step of the newest.
        steps: The first and the last step of each stretch without a gap of which there are some.
        left_out: How many could not be stored.
        first_left_out: The first step of which some could not, -1 where that is not known.
        last_left_out: The last of these.
        steps_left_out: The first and the last of these by event, in stretches as far as they meet.
        is_counted: Whether the run has come to its end, and with it the count of what could not be stored.
        reason: Why they could not; empty where all could.
        folder: Where their files are; empty where neither store nor configuration tell.
        size_bytes: What these files take; 0 where there are none any more.
    """

    count: int
    sites: tuple[str, ...]
    subjects: tuple[str, ...]
    first_step: int
    last_step: int
    steps: tuple[Span, ...]
    left_out: int
    first_left_out: int
    last_left_out: int
    steps_left_out: tuple[Span, ...]
    is_counted: bool
    reason: str
    folder: str
    size_bytes: int

    def to_text(self) -> str:
        """A line in words."""
        from ..storage import display_site

        lost = self._lost()
        if not self.count:
            return f"no whole tensor; {lost}"
        rest = len(self.sites) - _NAMED
        sites = ", ".join(map(display_site, self.sites[:_NAMED])) + (f" and {rest} more sites" if rest > 0 else "")
        when = steps_in_words(self.steps)
        what = f"{self.count} whole tensors ({', '.join(self.subjects)} of {sites}; {when}), {self._place()}"
        return f"{what}; {lost}" if self.left_out else what

    def _lost(self) -> str:
        """What could not be stored, since when and why; of a run that goes on, or was killed, the beginning."""
        if self.first_left_out < 0:
            return f"{self.left_out} were left out: {self.reason}"
        if self.is_counted:
            return f"{self.left_out} were left out ({steps_in_words(self.steps_left_out)}): {self.reason}"
        return f"{self.left_out} or more were left out, from step {self.first_left_out} on: {self.reason}"

    def _place(self) -> str:
        if not self.size_bytes:
            return f"whose files are not there any more: {self.folder}" if self.folder else "whose files are elsewhere"
        return f"{_size(self.size_bytes)} in {self.folder}"


def dumped_of(store: "Store", run: "Run") -> Dumped | None:
    """What the run holds of whole tensors; None of one that was to dump none."""
    from ..storage import StoreUnavailable, tensor_files

    told, lost = _events(store, run, "tensor"), _events(store, run, "tensors_left_out")
    if not told and not lost:
        return None
    try:
        files = tensor_files(store, run)
    except StoreUnavailable:
        files = None
    return Dumped(
        count=len(told),
        sites=_distinct(one.site for one in told),
        subjects=_distinct(str(one.data["subject"]) for one in told),
        first_step=min((one.step for one in told), default=-1),
        last_step=max((one.step for one in told), default=-1),
        steps=merged((one.step, one.step) for one in told),
        left_out=sum(_numbers(lost, "count")),
        first_left_out=min(_numbers(lost, "first"), default=-1),
        last_left_out=max(_numbers(lost, "first", "last"), default=-1),
        steps_left_out=merged((min(both), max(both)) for one in lost if (both := _numbers([one], "first", "last"))),
        is_counted=run.state in ("finished", "failed"),
        reason=", ".join(_distinct(str(one.data["reason"]) for one in lost)),
        folder="" if files is None else str(files.folder),
        size_bytes=0 if files is None else files.size_bytes(),
    )


def _events(store: "Store", run: "Run", kind: str) -> "list[Event]":
    return [one for rank in run.ranks for one in store.events(run.id, rank=rank, kind=kind, limit=_ALL)]


def _numbers(events: "Iterable[Event]", *names: str) -> list[int]:
    return [number for one in events for name in names if isinstance(number := one.data.get(name), int)]


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000.0:
            return f"{size:.3g} {unit}"
        size /= 1000.0
    return f"{size:.3g} GB"
