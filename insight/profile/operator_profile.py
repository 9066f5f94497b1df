"""The operators of profiled steps: how often they ran, and what they cost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...storage import Event, Store

__all__ = ["Holder", "Operator", "Profiled", "Span", "operator_table", "profiled_steps"]

#: Events that are read: each holds the spans of a step. Our choice.
_STEPS = 64


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator in one phase, in a mean step.

    Args:
        seconds: Time including the operators that it called.
        self_s: Time without them; these add up to the whole.
        share: Share of all operators' `self_s`.
        size_bytes: Bytes that it allocated.
    """

    name: str
    phase: str
    calls: float
    seconds: float
    self_s: float
    share: float
    size_bytes: float


@dataclass(frozen=True, slots=True)
class Span:
    """One call of an operator: seconds since the step's first moment, and the module that it ran in."""

    name: str
    phase: str
    site: str
    start_s: float
    seconds: float
    thread: int


@dataclass(frozen=True, slots=True)
class Holder:
    """An operator call whose memory was alive at the step's peak."""

    site: str
    operator: str
    phase: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Profiled:
    """One profiled step.

    Args:
        began: Unix time of its start.
        left_out: Number of spans that were not kept.
        memory: (seconds since the start, bytes allocated since then and still alive).
        peak_bytes: Peak of these bytes.
        holders: Allocations that were alive at the peak, the largest first.
    """

    step: int
    began: float
    seconds: float
    spans: tuple[Span, ...]
    left_out: int
    memory: tuple[tuple[float, int], ...]
    peak_bytes: int
    holders: tuple[Holder, ...]


def profiled_steps(
    store: Store, run: str, *, rank: int | None = None, first: int | None = None, last: int | None = None
) -> tuple[Profiled, ...]:
    """Return the newest profiled steps between two steps, oldest first; empty if there are none."""
    return tuple(_profiled(event) for event in _events(store, run, rank, first, last))


def operator_table(
    store: Store, run: str, *, rank: int | None = None, first: int | None = None, last: int | None = None
) -> tuple[Operator, ...]:
    """Return the operators of these steps by their own time, the longest first."""
    events = _events(store, run, rank, first, last)
    sums: dict[tuple[str, str], list[float]] = {}
    for event in events:
        for name, phase, *numbers in _rows(event.data["table"]):
            totals = sums.setdefault((name, phase), [0.0] * 4)
            for column, value in enumerate(numbers):
                totals[column] += value
    whole = sum(totals[2] for totals in sums.values()) or 1.0
    made = (
        Operator(
            name=name,
            phase=phase,
            calls=calls / len(events),
            seconds=total_s / len(events),
            self_s=self_s / len(events),
            share=self_s / whole,
            size_bytes=size / len(events),
        )
        for (name, phase), (calls, total_s, self_s, size) in sums.items()
    )
    return tuple(sorted(made, key=lambda operator: -operator.self_s))


def _events(store: Store, run: str, rank: int | None, first: int | None, last: int | None) -> list[Event]:
    found = [(int(event.data["step"]), event) for event in store.events(run, rank=rank, kind="operators", limit=_STEPS)]  # type: ignore[arg-type]  # the probe has written a number
    return [event for step, event in found if (first is None or step >= first) and (last is None or step <= last)]


def _profiled(event: Event) -> Profiled:
    data: Mapping[str, Any] = event.data  # Any: a JSON document that the probe has written
    names, sites = data["names"], data["sites"]
    return Profiled(
        step=int(data["step"]),
        began=float(data["began"]),
        seconds=float(data["seconds"]),
        spans=tuple(
            Span(names[name], phase, sites[site], start, seconds, thread)
            for name, phase, site, start, seconds, thread in data["spans"]
        ),
        left_out=int(data["left_out"]),
        memory=tuple((float(at), int(size)) for at, size in data["memory"]),
        peak_bytes=int(data["peak_bytes"]),
        holders=tuple(Holder(site, name, phase, int(size)) for site, name, phase, size in data["holders"]),
    )


def _rows(table: Any) -> Iterable[list[Any]]:  # Any: as above
    return table  # type: ignore[no-any-return]
