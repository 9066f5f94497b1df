"""Hyper-parameter search: Optuna proposes trials, findings prune them, and each trial is a run of the store.

    def train(attempt):
        lr = attempt.trial.suggest_float("lr", 1e-4, 1.0, log=True)
        with ms.watch(network, optimizer, store=store, run=attempt.name, tags=attempt.tags) as monitor:
            for step in range(200):
                ...
                if step % 20 == 19 and attempt.report(step, loss, monitor.findings):
                    break
        return loss

    found = search(train, store, trials=30, study="width and rate")

Needs the extra `tune`.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Self

from ..storage import SEVERITIES, Event, Finding, Json, RunNotFound, RunWriter, Severity, StepRecord, Store

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

__all__ = ["Attempt", "Ledger", "Search", "State", "Trial", "search"]

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
        """Store the trial, and tag its run with the objective."""
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


class Attempt:
    """One trial as the training sees it: it gives parameters and says when to stop.

    Attributes:
        trial: Optuna's own, to ask for parameters.
        number: Of the trial in its study.
        name: What the run must be called.
        pruned_by: Cause of the finding for which the training was told to stop, or `value`; empty while it was not.
        last: The value last reported, NaN before.
    """

    def __init__(self, trial: "optuna.Trial", number: int, study: str, prune_on: Severity | None) -> None:
        self.trial, self.number, self._study = trial, number, study
        self._severities = () if prune_on is None else SEVERITIES[SEVERITIES.index(prune_on) :]
        self.name = f"{study} {number}"
        self.pruned_by = ""
        self.last = float("nan")

    @property
    def tags(self) -> dict[str, Json]:
        """The parameters asked for so far, and which trial of which study this is."""
        return {**self.trial.params, "study": self._study, "trial": self.number}

    def report(self, step: int, value: float, findings: Iterable[Finding] = ()) -> bool:
        """Return whether the training should stop: a finding is severe enough, or Optuna's pruner says so.

        Args:
            value: What the trial would return now.
            findings: Of its run so far, as `monitor.findings` has them.
        """
        self.last = float(value)
        self.trial.report(self.last, step)
        worst = next((finding.cause for finding in findings if finding.severity in self._severities), None)
        self.pruned_by = worst or ("value" if self.trial.should_prune() else "")
        return bool(self.pruned_by)


Direction = Literal["minimize", "maximize"]


@dataclass(frozen=True, slots=True)
class Search:
    """What a search has found, in the order of trials."""

    study: str
    direction: Direction
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial | None:
        """The complete trial with the best value; None while there is none."""
        sign = 1.0 if self.direction == "minimize" else -1.0
        complete = [trial for trial in self.trials if trial.state == "complete"]
        return min(complete, key=lambda trial: sign * trial.value, default=None)


def search(
    train: Callable[[Attempt], float],
    store: Store,
    *,
    trials: int,
    study: str,
    direction: Direction = "minimize",
    prune_on: Severity | None = "error",
    sampler: "optuna.samplers.BaseSampler | None" = None,
    pruner: "optuna.pruners.BasePruner | None" = None,
    seed: int = 0,
) -> Search:
    """Run new trials of the study and return all; earlier searches of the same name are continued.

    Args:
        train: One training: asks for its parameters, records itself as the run `attempt.name` of this store, returns
            what is to become least, or largest. NaN counts as a failure.
        trials: How many new ones.
        prune_on: Findings from this severity on end a trial that reports them; None for none.
        sampler: Optuna's; by default its tree-structured Parzen estimator with this seed.
        pruner: Optuna's; by default none but the findings.

    Raises:
        ImportError: Optuna is not installed.
        RunNotFound: A training has not recorded the run that it should have.
        Exception: Whatever a training raises; the trial is remembered as failed.
    """
    optuna = _optuna()
    made = optuna.create_study(
        direction=direction,
        sampler=sampler or optuna.samplers.TPESampler(seed=seed),
        pruner=pruner or optuna.pruners.NopPruner(),
        study_name=study,
    )
    with Ledger(store, study) as ledger:
        done = list(ledger.earlier)
        for trial in done:
            made.add_trial(_as_optuna(optuna, trial))
        for _ in range(trials):
            number = done[-1].number + 1 if done else 0
            attempt = Attempt(made.ask(), number, study, prune_on)
            done.append(_run(optuna, made, train, attempt, store, ledger))
    return Search(study, direction, tuple(done))


def _run(
    optuna: ModuleType,
    optuna_study: "optuna.Study",
    train: Callable[[Attempt], float],
    attempt: Attempt,
    store: Store,
    ledger: Ledger,
) -> Trial:
    """Run one trial; report it to Optuna and store it."""
    states = optuna.trial.TrialState
    try:
        value = float(train(attempt))
    except BaseException:
        optuna_study.tell(attempt.trial, state=states.FAIL)
        ledger.add(_trial(optuna, attempt, store, "failed", attempt.last))
        raise
    if attempt.pruned_by:
        optuna_study.tell(attempt.trial, state=states.PRUNED)
        trial = _trial(optuna, attempt, store, "pruned", attempt.last)
    elif value != value:  # NaN, which Optuna takes for no value
        optuna_study.tell(attempt.trial, state=states.FAIL)
        trial = _trial(optuna, attempt, store, "failed", value)
    else:
        optuna_study.tell(attempt.trial, value)
        trial = _trial(optuna, attempt, store, "complete", value)
    ledger.add(trial)
    return trial


def _trial(optuna: ModuleType, attempt: Attempt, store: Store, state: State, value: float) -> Trial:
    optuna_trial = attempt.trial
    space = {
        name: optuna.distributions.distribution_to_json(distribution)
        for name, distribution in optuna_trial.distributions.items()
    }
    run = ""
    try:
        run = store.find_run(attempt.name).id
    except RunNotFound:
        if state != "failed":
            raise RunNotFound(
                f"trial {attempt.number} has recorded no run {attempt.name!r}; pass run=attempt.name and this store to "
                f"watch"
            ) from None
    return Trial(
        number=attempt.number,
        run=run,
        state=state,
        value=value,
        parameters=dict(optuna_trial.params),
        space=space,
        pruned_by=attempt.pruned_by,
    )


def _as_optuna(optuna: ModuleType, trial: Trial) -> "FrozenTrial":
    states = optuna.trial.TrialState
    frozen: FrozenTrial = optuna.trial.create_trial(
        state={"complete": states.COMPLETE, "pruned": states.PRUNED, "failed": states.FAIL}[trial.state],
        params=dict(trial.parameters),
        distributions={name: optuna.distributions.json_to_distribution(text) for name, text in trial.space.items()},
        value=trial.value if trial.state == "complete" else None,
    )
    return frozen


def _optuna() -> ModuleType:
    try:
        import optuna  # noqa: PLC0415  an optional extra
    except ImportError:
        raise ImportError("a search needs Optuna: pip install 'mindscope[tune]'") from None
    return optuna
