"""Checks watchpoint conditions on a stored run: on its series, and on the tensors that it dumped."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..storage import (
    Blobs,
    Block,
    Event,
    Finding,
    InvalidName,
    Layout,
    Run,
    StepRecord,
    Store,
    display_site,
    metric_name,
    nearest,
)
from ..storage.watch_conditions import parse_condition
from .engine import Engine
from .watchpoints import rules_with

_ALL: Final = 1_000_000_000
#: Of the finite elements, as the probe measures them; `content` stands for the tensor itself, so that `unchanged` means
#: every element and not only every statistic.
_STATISTICS: Final = (
    *("l2_norm", "mean", "std", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size"),
    "content",
)


def watch_series(store: Store, run: Run, conditions: Sequence[str], *, rank: int | None = None) -> tuple[Finding, ...]:
    """Return where the conditions hold in what the run recorded, by step.

    Raises:
        InvalidName: A condition is not understood.
    """
    return _findings(store.replay(run.id, rank=rank), conditions, run.first_rank if rank is None else rank)


def watch_dumps(
    store: Store, run: Run, blobs: Blobs, conditions: Sequence[str], *, rank: int | None = None
) -> tuple[Finding, ...]:
    """Return where the conditions hold in the tensors that the run dumped, by step.

    Steps are those in which tensors were dumped, so that `for 3 steps` means three dumps in a row. A statistic that the
    run never recorded can be asked for here, for the tensors are there.

    Args:
        conditions: Lines as in the configuration's `watchpoints`.

    Raises:
        InvalidName: A condition is not understood.
        StoreUnavailable, StoreDamaged: A file is not there, or not what was written.
    """
    events = sorted(store.events(run.id, rank=rank, kind="tensor", limit=_ALL), key=_moment)
    records = (_record(list(group), blobs) for _, group in groupby(events, _moment))
    return _findings(records, conditions, run.first_rank if rank is None else rank)


def check_names(store: Store, run: Run, conditions: Sequence[str], *, rank: int | None = None) -> None:
    """Check that the conditions name sites of the run, and metrics that it has recorded or can compute from dumps.

    Raises:
        InvalidName: A condition is not understood, or names nothing; the message names the nearest known name.
    """
    structure, layouts = store.structure(run.id, rank=rank), store.layouts(run.id, rank=rank)
    sites = {module.site for module in structure.modules} | {parameter.site for parameter in structure.parameters}
    names = {display_site(site) for site in sites.union(*(layout.sites for layout in layouts))}
    has_dumps = bool(store.events(run.id, rank=rank, kind="tensor", limit=1))
    metrics = store.metrics(run.id, rank=rank)
    for condition in map(parse_condition, conditions):
        pattern, metric = condition.sites, metric_name(condition.subject, condition.statistic)
        if pattern != "*" and not any(fnmatchcase(name, pattern) for name in names):
            raise InvalidName(
                f"condition {condition.text!r} matches none of {len(names)} sites{nearest(pattern, names)}"
            )
        if condition.statistic and metric not in metrics and (not has_dumps or condition.subject == "scalar"):
            raise InvalidName(f"condition {condition.text!r}: the run has not recorded it{nearest(metric, metrics)}")


def _findings(records: Iterator[StepRecord], conditions: Sequence[str], rank: int) -> tuple[Finding, ...]:
    engine = Engine(rules_with({}, {"watchpoints": list(conditions)}), rank=rank)
    return tuple(finding for record in records for finding in engine.observe(record))


def _moment(event: Event) -> tuple[int, int]:
    return event.step, event.micro_step


def _record(events: list[Event], blobs: Blobs) -> StepRecord:
    subjects: dict[str, list[Event]] = {}
    for event in events:
        subjects.setdefault(str(event.data["subject"]), []).append(event)
    blocks = tuple(_block(subject, group, blobs) for subject, group in subjects.items())
    return StepRecord(events[0].step, float(events[0].step), micro_step=events[0].micro_step, blocks=blocks)


def _block(subject: str, events: list[Event], blobs: Blobs) -> Block:
    calls = tuple(int(str(event.data.get("call", 0))) for event in events)
    kinds = ("float64",) * len(_STATISTICS)
    layout = Layout(subject, tuple(event.site for event in events), _STATISTICS, kinds, calls)
    return Block(layout, np.array([_row(str(event.data["digest"]), blobs) for event in events]))


def _row(digest: str, blobs: Blobs) -> list[float]:
    values: NDArray[np.float64] = blobs.get(digest).astype(np.float64).ravel()
    finite = values[np.isfinite(values)]
    none = not finite.size
    return [
        float(np.linalg.norm(finite)),
        *([np.nan] * 4 if none else (finite.mean(), finite.std(), finite.min(), finite.max())),
        float((finite == 0).sum()),
        float(np.isnan(values).sum()),
        float(np.isposinf(values).sum()),
        float(np.isneginf(values).sum()),
        float(values.size),
        float(int(digest[:13], 16)),
    ]
