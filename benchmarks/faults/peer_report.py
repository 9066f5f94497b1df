"""The table of other tools: the same shares of the same runs, theirs beside ours."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Final

from ..environment import machine
from ..rows import row_of
from .outcome import Outcome
from .score import Judged, Share, judge, share, warned
from .table import Case

#: By tool, case and seed.
Found = dict[tuple[str, str, int], Outcome]
_Ours = Mapping[tuple[str, int], Outcome]

#: Tools that were looked at and cannot be run on these scripts, and why.
_UNSUITABLE: Final = {
    "traincheck": "rewrites the source of a whole script, traces every call of torch and infers invariants from the "
    "traces of reference runs before it can check one: it has no way to be attached to a model that trains",
}
_CLAIMS: Final[Mapping[str, Callable[[Judged], bool | None]]] = {
    "detection, raw": lambda one: one.is_seen,
    "detection, net of the twin's alarms": lambda one: one.is_new,
    "site and rank, first cause": lambda one: one.is_placed,
    "cause, first": lambda one: one.is_named,
    "cause, first three": lambda one: one.is_near,
}


def document(
    cases: Sequence[Case],
    seeds: Sequence[int],
    found: Found,
    ours: _Ours,
    versions: Mapping[str, str],
    *,
    limit_s: float,
) -> dict[str, Any]:
    """Everything that was measured, as plain values."""
    outcomes: dict[str, _Ours] = {
        tool: {(case, seed): one for (peer, case, seed), one in found.items() if peer == tool} for tool in versions
    }
    tables = {tool: _shares(cases, seeds, of) for tool, of in outcomes.items()}
    own = _shares(cases, seeds, ours) if ours else {}
    stopped = {
        tool: sorted({one.case for one in of.values() if one.error.startswith("ended after")})
        for tool, of in outcomes.items()
    }
    return {
        "benchmark": "faults that PyTorch trains in one process, by other tools",
        "machine": machine(),
        "versions": dict(versions),
        "seeds": list(seeds),
        "results": [
            *(_share_row(metric, own.get(metric), tables) for metric in next(iter(tables.values()), {})),
            _seconds_row(ours, outcomes, seeds),
        ],
        "stopped": {f"{tool}, after {limit_s:g} s": names for tool, names in stopped.items() if names},
        "missing": [{"peer": name, "reason": reason} for name, reason in _UNSUITABLE.items()],
    }


def _shares(cases: Sequence[Case], seeds: Sequence[int], of: _Ours) -> dict[str, Share]:
    faulty = [case for case in cases if not case.is_healthy]
    judged = [judge(case, of[case.name, seed], of[case.script, seed]) for case in faulty for seed in seeds]
    silent = [one for one in judged if one.case.is_silent]
    shares = {metric: share(judged, claim) for metric, claim in _CLAIMS.items()}
    shares["detection of silent faults, net"] = share(silent, lambda one: one.is_new)
    healthy = [of[case.name, seed] for case in cases if case.is_healthy for seed in seeds]
    return shares | {"healthy runs with any warning": warned(healthy)}


def _share_row(metric: str, own: Share | None, tables: Mapping[str, Mapping[str, Share]]) -> dict[str, Any]:
    runs = next(iter(tables.values()))[metric].of
    row = row_of(f"{runs} runs", metric, 100.0 * own.value if own else None, "%")
    row["peers"] = {tool: 100.0 * table[metric].value for tool, table in tables.items()}
    row["intervals"] = {tool: [100.0 * end for end in table[metric].interval] for tool, table in tables.items()}
    return row | ({"interval": [100.0 * end for end in own.interval]} if own else {})


def _seconds_row(ours: _Ours, outcomes: Mapping[str, _Ours], seeds: Sequence[int]) -> dict[str, Any]:
    known = {key for of in outcomes.values() for key in of}
    own = [one.seconds for key, one in ours.items() if key in known]
    row = row_of(
        f"seeds {', '.join(map(str, seeds))}", "processor time of a run, median", median(own) if own else None, "s"
    )
    row["peers"] = {tool: median(one.seconds for one in of.values()) for tool, of in outcomes.items() if of}
    return row
