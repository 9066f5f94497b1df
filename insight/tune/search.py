"""The search itself: ask Optuna, train, tell Optuna, remember."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...storage import RunNotFound, Severity, Store
from .attempt import Attempt
from .ledger import Ledger, State, Trial

if TYPE_CHECKING:
    import optuna

__all__ = ["Search", "search"]

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
    """The trials of the study, those of earlier searches under its name included: it goes on where they ended.

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
    optuna: Any,  # the module
    made: "optuna.Study",
    train: Callable[[Attempt], float],
    attempt: Attempt,
    store: Store,
    ledger: Ledger,
) -> Trial:
    """One trial, told to Optuna and remembered."""
    states = optuna.trial.TrialState
    try:
        value = float(train(attempt))
    except BaseException:
        made.tell(attempt.trial, state=states.FAIL)
        ledger.add(_trial(optuna, attempt, store, "failed", attempt.last))
        raise
    if attempt.pruned_by:
        made.tell(attempt.trial, state=states.PRUNED)
        trial = _trial(optuna, attempt, store, "pruned", attempt.last)
    elif value != value:  # NaN, which Optuna takes for no value
        made.tell(attempt.trial, state=states.FAIL)
        trial = _trial(optuna, attempt, store, "failed", value)
    else:
        made.tell(attempt.trial, value)
        trial = _trial(optuna, attempt, store, "complete", value)
    ledger.add(trial)
    return trial


def _trial(optuna: Any, attempt: Attempt, store: Store, state: State, value: float) -> Trial:  # Any: the module
    asked = attempt.trial
    space = {name: optuna.distributions.distribution_to_json(one) for name, one in asked.distributions.items()}
    run = ""
    try:
        run = store.find_run(attempt.name).id
    except RunNotFound:
        if state != "failed":
            raise RunNotFound(
                f"trial {attempt.number} has recorded no run {attempt.name!r}; pass run=attempt.name, and this store, "
                f"to watch"
            ) from None
    return Trial(attempt.number, run, state, value, dict(asked.params), space, attempt.pruned_by)


def _as_optuna(optuna: Any, trial: Trial) -> Any:  # Any: the module, and its frozen trial
    states = optuna.trial.TrialState
    return optuna.trial.create_trial(
        state={"complete": states.COMPLETE, "pruned": states.PRUNED, "failed": states.FAIL}[trial.state],
        params=dict(trial.parameters),
        distributions={name: optuna.distributions.json_to_distribution(text) for name, text in trial.space.items()},
        value=trial.value if trial.state == "complete" else None,
    )


def _optuna() -> Any:  # the module
    try:
        import optuna  # noqa: PLC0415  an optional extra
    except ImportError:
        raise ImportError("a search needs Optuna: pip install 'mindscope[tune]'") from None
    return optuna
