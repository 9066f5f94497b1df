"""A profile as a person reads it in a terminal."""

from collections.abc import Iterator

import numpy as np

from ...storage import display_site
from .profile import Profile

__all__ = ["render_profile"]

_ROWS = 12


def render_profile(profile: Profile) -> str:
    """The profile in words: split, ranks, collectives, operators, memory, and what to do."""
    parts = (_split(profile), _ranks(profile), _collectives(profile), _operators(profile), _memory(profile))
    lines = [line for part in (*parts, _advice(profile)) for line in part]
    return "\n".join([f"profile of {profile.run}", *lines])


def _split(profile: Profile) -> Iterator[str]:
    for split in profile.splits:
        if split.steps or split.phases:
            yield ""
            yield f"rank {split.rank}: a step takes {_ms(split.step_s)}, 95 % at most {_ms(split.slow_s)}"
            for name, seconds in (*split.phases.items(), *split.inside.items()):
                part = "  of which " if name in split.inside else ""
                yield f"  {part:<11}{name:<14} {_ms(seconds):>10}  {split.share(name):6.1%}"


def _ranks(profile: Profile) -> Iterator[str]:
    if any(np.isfinite(rank.slowness) for rank in profile.ranks):
        yield from ("", "ranks, the slowest first: own work, waiting, against the others")
        for rank in profile.ranks[:_ROWS]:
            yield f"  rank {rank.rank:<4} {_ms(rank.own_s):>10} {_ms(rank.wait_s):>10}  {rank.slowness:.2f}"


def _collectives(profile: Profile) -> Iterator[str]:
    if profile.collectives:
        yield from ("", "collectives of a step: calls, bytes, time, of which waiting")
        for one in profile.collectives[:_ROWS]:
            cost = f"{one.calls:6.1f} {_bytes(one.size_bytes):>10} {_ms(one.seconds):>10} {_ms(one.wait_s):>10}"
            yield f"  rank {one.rank} {one.site:<28} {cost}"


def _operators(profile: Profile) -> Iterator[str]:
    if profile.operators:
        yield from ("", f"operators of {len(profile.profiled)} steps: calls a step, own time, share, bytes allocated")
        for one in profile.operators[:_ROWS]:
            cost = f"{one.calls:7.1f} {_ms(one.self_s):>10} {one.share:6.1%} {_bytes(one.size_bytes):>10}"
            yield f"  {one.phase:<10} {one.name:<32} {cost}"


def _memory(profile: Profile) -> Iterator[str]:
    for use in profile.memory:
        if use.steps:
            peaks = (("host", use.host_peak_bytes), ("device", use.device_peak_bytes))
            said = ", ".join(f"{name} {_bytes(size)}" for name, size in peaks if np.isfinite(size))
            yield from ("", f"memory of rank {use.rank}, most at step {use.peak_step}: {said}")
        for part in use.parts[:_ROWS]:
            where = f" of {display_site(part.site)}" if part.kind == "activations" else ""
            how = "" if part.is_measured else "  (from shapes)"
            yield f"  {_bytes(part.size_bytes):>10}  {part.kind}{where}{how}"


def _advice(profile: Profile) -> Iterator[str]:
    if profile.advice:
        yield from ("", "what to do:")
        for number, one in enumerate(profile.advice, 1):
            yield f"{number}. {one.says}"
            yield f"   {one.do} (at most {1.0 / max(1.0 - one.share, 0.01):.2f} times as fast)"
    if profile.missing:
        yield from ("", "not recorded:", *(f"  {one}" for one in profile.missing))


def _ms(seconds: float) -> str:
    return "?" if not np.isfinite(seconds) else f"{seconds * 1e3:.3g} ms"


def _bytes(size: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if abs(size) < 1024.0:
            return f"{size:.3g} {unit}"
        size /= 1024.0
    return f"{size:.3g} TB"
