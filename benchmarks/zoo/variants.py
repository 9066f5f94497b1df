"""Further ways to watch the zoo's runs, and what each must find: beside a good run; with `ms.watch` and scalars."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from .case import Case
from .rows import Row, share_row
from .score import identical, judge_all, share
from .trial import Watched


@dataclass(frozen=True, slots=True)
class Variant:
    """One further way to watch a run, and its targets.

    Args:
        name: As rows have it behind the metric.
        of: Returns what was said of a case that was watched so, else None.
        seen: Share of the faults that any alarm should be raised of; `silent` of those that end well.
        named: Share that is given the right word first; `near` among three, None where that is not asked.
        placed: Share of the faults of one module that is placed there.
        warned: Share of the healthy programs that at most may have a warning.
        is_same: Whether it is asked if the results are those of the programs without a monitor.
    """

    name: str
    of: Callable[[Case], Watched | None]
    seen: float
    silent: float
    named: float
    near: float | None
    placed: float
    warned: float
    is_same: bool = False


VARIANTS: Final = (
    Variant("beside a good run", lambda case: case.against, 0.95, 0.90, 0.85, None, 0.85, 0.04),
    Variant("with ms.watch and scalars", lambda case: case.logged, 0.90, 0.85, 0.85, 0.92, 0.85, 0.02, is_same=True),
)


def variant_rows(cases: Sequence[Case]) -> list[Row]:
    """Return what was found in each further way in which any case was watched."""
    rows: list[Row] = []
    for variant in VARIANTS:
        watched = [replace(case, watched=found) for case in cases if (found := variant.of(case)) is not None]
        if watched:
            rows += _rows(variant, watched)
    return rows


def _rows(variant: Variant, cases: Sequence[Case]) -> list[Row]:
    judged = judge_all(cases)
    silent = [one for one in judged if one.case.is_silent]
    claims = [
        ("faults", "detected", [one.is_seen for one in judged], variant.seen),
        ("silent faults", "detected", [one.is_seen for one in silent], variant.silent),
        ("faults with a word", "cause, first", [one.is_named for one in judged], variant.named),
        ("faults with a word", "cause, first three", [one.is_near for one in judged], variant.near),
        ("faults of one module", "site", [one.is_placed for one in judged], variant.placed),
        ("all runs", "same result", identical(cases), 1.0 if variant.is_same else None),
    ]
    rows = [
        share_row(subject, f"{metric}, {variant.name}", share(found), target)
        for subject, metric, found, target in claims
        if target is not None
    ]
    warned = share([bool(case.watched.alarms) for case in cases if not case.operator])
    name = f"with a warning, {variant.name}"
    return [*rows, share_row("healthy programs", name, warned, variant.warned, at_most=True)]
