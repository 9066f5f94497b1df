"""Memory that keeps growing."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from operator import and_

from ...storage import ROOT_SITE, Finding
from ..context.step_context import StepContext
from ..recording import Recording
from ..rule import OPTIMIZER, rule

_NAMES = ("memory/device_bytes", "memory/host_bytes")
#: Looks that are left out, since caches, compiled code and optimizer state are allocated in the first steps; and looks
#: that are judged.
_SETTLING, _JUDGED = 2, 6
#: Share of the memory, and bytes (our choice): a loader's pages vary by some megabytes, an allocator that keeps freed
#: memory gained 5 MB in a healthy run of ours, and a smaller leak takes days to matter.
_SHARE, _LEAST = 0.02, 8 * 2.0**20
#: Share of the growth that a single look may lose, and looks, never two in a row, without growth: an allocator fills
#: its pool before it asks for more.
_FALL, _PAUSES = 0.05, 2
_MEGA = 2.0**20


@dataclass(slots=True)
class _MemoryGrowthState:
    """(step, bytes) of each figure, and which figures were reported."""

    seen: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)


def _every_tenth(values: tuple[float, ...]) -> tuple[float | None, ...]:
    return tuple(value * _MEGA if at == 0 else None for value in values for at in range(10))


@rule(
    "memory-growth",
    needs=tuple(f"scalar/{name}" for name in _NAMES),
    phase=OPTIMIZER,
    memory=_MemoryGrowthState,
    warm_up=_SETTLING + _JUDGED,
    is_optional=True,
    fires_on=(
        Recording({"scalar/memory/host_bytes": _every_tenth((300, 400, *(410 + 20 * at for at in range(8))))}),
        # an allocator that fills what it has
        Recording({"scalar/memory/host_bytes": _every_tenth((300, 400, 410, 430, 450, 450, 480, 500, 520, 540))}),
        Recording({"scalar/memory/host_bytes": _every_tenth((300, 400, 410, 430, 430, 450, 470, 470, 500, 520))}),
    ),
    silent_on=(
        Recording({"scalar/memory/host_bytes": _every_tenth((300, 400, *([410] * 8)))}),
        # it fills a cache and levels off
        Recording({"scalar/memory/host_bytes": _every_tenth((300, 400, 440, 460, 470, 475, 476, 476, 476, 476))}),
        # twice it grew by a block and stayed
        Recording({"scalar/memory/host_bytes": _every_tenth((300, 400, 400, 400, 440, 440, 440, 480, 480, 480))}),
        Recording({"scalar/memory/host_bytes": _every_tenth((300, 400, 440, 400, 440, 400, 440, 400, 440, 400))}),
    ),
)
def check(context: StepContext, memory: _MemoryGrowthState) -> Iterator[Finding]:
    """Report memory that keeps rising.

    The rule fires when memory has risen in six looks after the first two, with at most two pauses, and as fast in the
    later half as in the earlier one, by at least 2 % and 8 MB. Memory that fills a cache rises ever more slowly; memory
    that rises and falls is no leak. Device memory is judged before the host's. Look for tensors that are kept with
    their graph.
    """
    for name in _NAMES:
        value = context.scalar(name)
        if value is None or name in memory.reported:
            continue
        looks = memory.seen.setdefault(name, [])
        looks.append((context.step, value))
        if len(looks) < _SETTLING + _JUDGED + 1:
            continue
        window = looks[-_JUDGED - 1 :]
        found = _growth(window)
        if found is not None:
            memory.reported.add(name)
            yield _report(context, name, window, found)
        del looks[: -_SETTLING - _JUDGED]


def _growth(window: list[tuple[int, float]]) -> float | None:
    """Return the growth in bytes per step; None if it is not steady."""
    rises = [later - earlier for (_, earlier), (_, later) in pairwise(window)]
    half = len(rises) // 2
    total, start = sum(rises), window[0][1]
    pauses = [rise <= 0 for rise in rises]
    has_paused = sum(pauses) > _PAUSES or any(map(and_, pauses, pauses[1:])) or min(rises) < -_FALL * total
    if has_paused or total < max(_SHARE * start, _LEAST) or sum(rises[half:]) < 0.8 * sum(rises[:half]):
        return None
    return total / max(window[-1][0] - window[0][0], 1)


def _report(context: StepContext, name: str, window: list[tuple[int, float]], pace: float) -> Finding:
    first, last = window[0], window[-1]
    return context.finding(
        ROOT_SITE,
        f"scalar/{name}",
        {"bytes": last[1], "bytes_before": first[1], "bytes_per_step": pace, "steps": last[0] - first[0]},
        severity="warning",
        first_step=first[0],
        position=0,
        explanation=f"{name} rose from {first[1] / _MEGA:.0f} MB at step {first[0]} to {last[1] / _MEGA:.0f} MB, by "
        f"{pace / _MEGA:.2g} MB a step, and does not level off",
        advice="look for tensors that are kept with their graph: losses summed without float(), outputs gathered in "
        "a list, hooks that store tensors, caches without a limit; detach() what must be kept, and move it to the host",
        confidence=0.8,
    )
