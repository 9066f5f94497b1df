"""What a search remembers: a run of kind `evaluation` whose steps are trials and whose scalar is their objective."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from ...storage import Event, Json, RunWriter, StepRecord, Store

__all__ = ["Ledger", "State", "Trial"]

State = Literal["complete", "pruned", "failed"]

_KIND = "trial"
_ALL = 1_000_000


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial that has ended.

    Args:
        run: Id of its run; empty when it failed before it had one.
        value: What the training returned; of a pruned one the last that it reported; NaN if there is none.
        space: Where each parameter was drawn from, in Optuna's own JSON.
        pruned_by: The cause of the finding that ended it, `value` where Optuna's pruner did; empty for others.
    """

    number: int
    run: str
    state: State
    value: float
    parameters: Mapping[str, Json]
    space: Mapping[str, str]
    pruned_by: str = ""


class Ledger:
    """The trials of one study in a store.

    Attributes:
        earlier: Those of searches before this one, by number.
    """

    def __init__(self, store: Store, study: str) -> None:
        self._store, self._study = store, study
        runs = [run for run in store.runs(limit=_ALL) if run.kind == "evaluation" and run.name == study]
        events = [event for run in runs for event in store.events(run.id, kind=_KIND, limit=_ALL)]
        self.earlier = tuple(sorted(map(_read, events), key=lambda trial: trial.number))
        self._writer: RunWriter | None = None

    def add(self, trial: Trial) -> None:
        """Nothing; the trial is remembered, and its run is tagged with the objective."""
        scalars = {"trial/objective": trial.value} if trial.value == trial.value else {}
        event = Event(_KIND, trial.number, data=asdict(trial))
        self._open.write([StepRecord(trial.number, time.time(), scalars=scalars, events=(event,))])
        if trial.run and trial.state == "complete":
            run = self._store.find_run(trial.run)
            self._store.annotate(run.id, tags={**run.tags, "objective": trial.value})

    @property
    def _open(self) -> RunWriter:
        assert self._writer is not None, "a ledger is written inside of its with block"
        return self._writer

    def __enter__(self) -> Self:
        self._writer = self._store.begin_run(self._study, kind="evaluation")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._open.close()
        else:
            self._open.close("failed", f"{type(error).__name__}: {error}")


def _read(event: Event) -> Trial:
    data: dict[str, Any] = dict(event.data)  # Any: what `add` has written
    return Trial(**data)
