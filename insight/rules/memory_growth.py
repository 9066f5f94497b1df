"""Memory that keeps growing."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import and_

from ...storage import ROOT_SITE, Finding
from ..context.step_context import StepContext
from ..indicators.lowered_findings import withdrawn
from ..recording import Recording
from ..rule import OPTIMIZER, rule

_NAMES = ("memory/device_bytes", "memory/host_bytes")
#: What the monitor holds of the host's memory, which is not the program's.
_MONITOR = "memory/monitor_bytes"
#: Looks that are left out, since caches, compiled code and optimizer state are allocated in the first steps; and looks
#: that are judged.
_SETTLING, _JUDGED = 3, 6
#: Share of the memory, and bytes (our choice): a loader's pages vary by some megabytes, an allocator that keeps freed
#: memory gained 5 MB in a healthy run of ours, and a smaller leak takes days to matter. The monitor's own memory grew
#: by 45 MB in 2500 steps of a small model, of which 2.5 MB were not counted as its own.
_SHARE, _LEAST = 0.01, 6 * 2.0**20
#: Most of the growth that may come in one look: a plot, a checkpoint or a cache that is filled once is no leak. What
#: the other looks have is judged, so that one such growth makes no leak of the pages that vary beside it.
_AT_ONCE = 0.4
#: Share of the growth that a single look may lose, and looks, never two in a row, without growth: an allocator fills
#: its pool before it asks for more.
_FALL, _PAUSES = 0.05, 2
_MEGA = 2.0**20
#: Growth from which it is a warning, as a share and in bytes; until then it is a question: programs gather results,
#: and allocators warm up for longer than they were watched (our choice).
_MUCH_SHARE, _MUCH = 0.1, 64 * 2.0**20
_ASKED = "; is something gathered on purpose?"
#: Sizes of the input in the looks of a window from which they count as varying, and growth up to which that explains
#: host memory. oneDNN keeps compiled kernels for the last 1024 sizes: an LSTM of ours, trained on sequences of 5 to 420
#: steps, grew by 148 MB in 320 steps, and by 29 MB without that cache (our choice: seven times as much).
_SIZES, _OF_CACHES = 4, 1024 * 2.0**20
_HOST = "memory/host_bytes"


@dataclass(slots=True)
class _MemoryGrowthState:
    """(step, bytes) of each figure, and which figures were reported."""

    seen: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    reported: dict[str, Finding] = field(default_factory=dict)
    level: dict[str, int] = field(default_factory=dict)
    sizes: deque[float] = field(default_factory=lambda: deque(maxlen=_JUDGED + 1))

    def limit(self, name: str) -> float:
        """Return the growth in bytes from which it is a warning."""
        return _OF_CACHES if name == _HOST and self.sizes_seen >= _SIZES else _MUCH

    @property
    def sizes_seen(self) -> int:
        """How many sizes the input had in the newest looks."""
        return len(set(self.sizes))


def _every_tenth(values: tuple[float, ...]) -> tuple[float | None, ...]:
    return tuple(value * _MEGA if at == 0 else None for value in values for at in range(10))


@rule(
    "memory-growth",
    needs=tuple(f"scalar/{name}" for name in _NAMES),
    phase=OPTIMIZER,
    memory=_MemoryGrowthState,
    warm_up=_SETTLING + _JUDGED,
    is_optional=True,
    asks="intent",
    fires_on=(
        Recording({"scalar/memory/host_bytes": _every_tenth((300, 400, *(410 + 20 * at for at in range(12))))}),
        # an allocator that fills what it has
        Recording(
            {"scalar/memory/host_bytes": _every_tenth((300, 400, 410, 430, 450, 450, 480, 500, 520, 540, 560, 580))}
        ),
        Recording(
            {"scalar/memory/host_bytes": _every_tenth((300, 400, 410, 430, 430, 450, 470, 470, 500, 520, 540, 560))}
        ),
    ),
    silent_on=(
        Recording({"scalar/memory/host_bytes": _every_tenth((300, 400, *([410] * 8)))}),
        # a figure is drawn, and what the monitor keeps of each step is written by and by
        Recording(
            {"scalar/memory/host_bytes": _every_tenth((300, 400, 401, 402, 403, 404, 405, 460, 461, 462, 463, 464))}
        ),
        # it fills a cache and levels off
        Recording({"scalar/memory/host_bytes": _every_tenth((300, 400, 440, 460, 470, 475, 476, *[477] * 6))}),
        # twice it grew by a block and stayed
        Recording({"scalar/memory/host_bytes": _every_tenth((300, 400, 400, 400, 440, 440, 440, 480, 480, 480))}),
        Recording({"scalar/memory/host_bytes": _every_tenth((300, 400, 440, 400, 440, 400, 440, 400, 440, 400))}),
        # what grows is the monitor's
        Recording(
            {
                "scalar/memory/host_bytes": _every_tenth((300, 400, *(410 + 20 * at for at in range(12)))),
                "scalar/memory/monitor_bytes": _every_tenth((0, 5, *(10 + 20 * at for at in range(12)))),
            }
        ),
        # a figure is drawn while pages of a loader are filled
        Recording({"scalar/memory/host_bytes": _every_tenth((300, 400, 401, 402, 403, 404, 405, 408, 409, 410, 411))}),
    ),
)
def check(context: StepContext, memory: _MemoryGrowthState) -> Iterator[Finding]:
    """Report memory that keeps rising.

    The rule fires when memory has risen in six looks after the first three, with at most two pauses, and as fast in
    the later half as in the earlier one, by at least 1 % and 6 MB without the look that has most, which may have two
    fifths of all. What the monitor itself holds of the host's memory is subtracted, as far as it is counted. Memory
    that fills a cache rises ever more slowly; memory that rises and falls, or rises once, is no leak. If it levels off
    for six further looks, the finding is withdrawn. Below 10 % and 64 MB it is a question. Device memory is judged
    before the host's. Where the input has another size at nearly every look, allocators and the caches of compiled
    kernels grow with every new size, so that host memory is a question up to 1 GB. Look for tensors that are kept with
    their graph.
    """
    if any(context.scalar(name) is not None for name in _NAMES) and (size := _input_size(context)) is not None:
        memory.sizes.append(size)
    for name in _NAMES:
        value = _of_the_program(context, name)
        if value is None:
            continue
        looks = memory.seen.setdefault(name, [])
        looks.append((context.step, value))
        if name in memory.reported:
            yield from _escalated(context, memory, name, value)
            yield from _withdrawn(context, memory, name, value)
            continue
        if len(looks) < _SETTLING + _JUDGED + 1:
            continue
        window = looks[-_JUDGED - 1 :]
        found = _growth(window)
        if found is not None:
            memory.reported[name] = _report(context, memory, name, window, found)
            memory.level[name] = 0
            yield memory.reported[name]
        del looks[: -_SETTLING - _JUDGED]


def _of_the_program(context: StepContext, name: str) -> float | None:
    """Return the bytes, without what the monitor holds of the host's."""
    value = context.scalar(name)
    return value if value is None or name != _HOST else value - (context.scalar(_MONITOR) or 0.0)


def _growth(window: list[tuple[int, float]]) -> float | None:
    """Return the growth in bytes per step; None if it is not steady."""
    rises = [later - earlier for (_, earlier), (_, later) in pairwise(window)]
    half = len(rises) // 2
    total, start = sum(rises), window[0][1]
    pauses = [rise <= 0 for rise in rises]
    has_paused = sum(pauses) > _PAUSES or any(map(and_, pauses, pauses[1:])) or min(rises) < -_FALL * total
    if (
        has_paused
        or max(rises) > _AT_ONCE * total
        or total - max(rises) < max(_SHARE * start, _LEAST)
        or sum(rises[half:]) < 0.8 * sum(rises[:half])
    ):
        return None
    return total / max(window[-1][0] - window[0][0], 1)


def _escalated(context: StepContext, memory: _MemoryGrowthState, name: str, value: float) -> Iterator[Finding]:
    """Yield the finding as a warning once the memory has grown by much, if it was a question until then."""
    found = memory.reported[name]
    start = found.evidence["bytes_before"]
    is_much = value - start >= max(_MUCH_SHARE * start, memory.limit(name))
    if found.severity == "info" and is_much and not memory.level[name]:
        words = found.explanation.removesuffix(_ASKED)
        grown = replace(found, step=context.step, severity="warning", confidence=0.8, explanation=words)
        memory.reported[name] = grown
        yield grown


def _withdrawn(context: StepContext, memory: _MemoryGrowthState, name: str, value: float) -> Iterator[Finding]:
    """Yield the finding once more, as a notice, when the memory has not grown for as long as it was seen to grow."""
    looks, found = memory.seen[name], memory.reported[name]
    highest = max(seen for _, seen in looks[:-1])
    memory.level[name] = memory.level[name] + 1 if value <= highest + _FALL * found.evidence["bytes"] * _SHARE else 0
    memory.seen[name] = [(context.step, max(highest, value))]
    if memory.level[name] == _JUDGED:
        words = f"{name} rose to {highest / _MEGA:.0f} MB and has stayed there up to step {context.step}"
        yield withdrawn(found, context, words)


def _input_size(context: StepContext) -> float | None:
    """Return how many values the first input of this step has; None where it was not recorded."""
    table = context.table("batch")
    return None if table is None else float(table.column("size")[0])


def _report(
    context: StepContext, memory: _MemoryGrowthState, name: str, window: list[tuple[int, float]], pace: float
) -> Finding:
    first, last = window[0], window[-1]
    is_much = last[1] - first[1] >= max(_MUCH_SHARE * first[1], memory.limit(name))
    varies = memory.limit(name) > _MUCH
    held = (context.scalar(_MONITOR) or 0.0) if name == _HOST else 0.0
    less = f", less the {held / _MEGA:.0f} MB that the monitor holds," if held else ""
    caches = f"; its input had {memory.sizes_seen} sizes in {len(memory.sizes)} looks" if varies else ""
    return context.finding(
        ROOT_SITE,
        f"scalar/{name}",
        {"bytes": last[1], "bytes_before": first[1], "bytes_per_step": pace, "steps": last[0] - first[0]}
        | ({"monitor_bytes": held} if held else {}),
        severity="warning" if is_much else "info",
        first_step=first[0],
        position=0,
        explanation=f"{name}{less} rose from {first[1] / _MEGA:.0f} MB at step {first[0]} to {last[1] / _MEGA:.0f} MB, "
        f"by {pace / _MEGA:.2g} MB a step, and does not level off{caches}{'' if is_much else _ASKED}",
        advice="look for tensors that are kept with their graph: losses summed without float(), outputs gathered in "
        "a list, hooks that store tensors, caches without a limit; detach() what must be kept, and move it to the host"
        + (
            "; allocators and the caches of compiled kernels grow with every new size as well: pad the input to a few "
            "sizes, or set ONEDNN_PRIMITIVE_CACHE_CAPACITY=1, and see whether it levels off"
            if varies
            else ""
        ),
        confidence=0.8 if is_much else 0.5,
    )
