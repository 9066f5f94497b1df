"""Attacks times budgets: how accurate a model stays, written to the store beside the training that made it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ...storage import Json, Store
from ..arrays import Array
from ..contract.attack import Attack, Progress, Sweep, check_seed
from ..contract.samples import check_epsilons, check_samples
from ..contract.spread import check_jobs
from ..distances import Norm
from ..errors import InvalidInput
from ..model import Model, wrap
from .checkpoint import Checkpoint
from .masking import Symptom, black_box, symptoms, training_mode
from .outcome_log import OutcomeLog
from .plan import Plan, chosen
from .reached import Reached, reached
from .report import Evaluation
from .suites import Suite, suite_named
from .tally import Tally
from .yardstick import plain_accuracy

#: Told after each batch: the share that is done, 0 to 1, and the attack and budget at work.
EvaluationProgress = Callable[[float, str], None]


def evaluate(
    model: object,
    x: Array,
    y: ArrayLike,
    epsilons: float | Iterable[float],
    *,
    attacks: Sequence[str | Attack] | None = None,
    suite: Suite = "quick",
    norm: Norm = "linf",
    store: Store | None = None,
    parent: str | None = None,
    name: str = "robustness",
    seed: int = 0,
    batch_size: int = 256,
    jobs: int = 1,
    progress: EvaluationProgress | None = None,
    checkpoint: str | Path | None = None,
) -> Evaluation:
    """Accuracy under every attack at every budget, and in the worst case.

    Samples that the model gets wrong without an attack count as lost and are not attacked. The worst case takes every
    sample as lost that any attack defeats within the budget or a smaller one.

    Args:
        model: Made by `wrap`, or a Cell or Module that takes inputs in [0, 1].
        epsilons: Budgets; 0, the clean accuracy, is always among the outcomes.
        attacks: Names of `ATTACKS`, or attacks with options of their own, all in `norm`; None for those of the suite.
        suite: `quick`, or `standard`: the parameter-free ensemble, each attack on what the ones before it left.
        store: Where the outcomes go, as a run of kind `evaluation`, after every attack and budget.
        parent: The training run that made the model: its id, name, or `latest`. Needs `store`.
        seed: Of the random starts; the same seed gives the same outcomes.
        jobs: Processes over which the batches of an attack are spread, by joblib; -1 for one a core. The result is the
            same.
        checkpoint: File (`.npz`) that has what is done after every attack and budget; the same call goes on from it
            after a kill, to the same result, in a run of its own.

    Returns:
        What was done. After Ctrl-C that is what was complete by then, `interrupted` says so, and the stored run failed.

    Raises:
        InvalidInput, InvalidModel, UnknownAttack, RunNotFound: Before anything is attacked or stored.
    """
    check_seed(seed)
    check_jobs(jobs)
    if parent is not None and store is None:
        raise InvalidInput(f"parent {parent!r} expects store=, where that run is kept")
    planned = chosen(suite_named(suite) if attacks is None else attacks, norm)
    budgets = tuple(sorted({0.0, *check_epsilons(epsilons)}))
    target = model if isinstance(model, Model) else wrap(model)
    doubts = list(training_mode(target))
    with target.evaluating():
        samples = check_samples(target, x, y, targets=None, margin=0.0, batch_size=batch_size)
        plan = Plan(
            target, samples, planned, norm, budgets, int(seed), batch_size, attacks is None and suite != "quick", jobs
        )
        done = Checkpoint(None if checkpoint is None else Path(checkpoint), plan.config(), samples)
        tally = Tally(samples, norm, budgets, plan.details())
        gaps: dict[float, float] = {}
        with OutcomeLog(store, name, target.framework, parent, plan.config()) as log:
            try:
                _sweep(plan, tally, log, done, progress)
                doubts += _doubts(plan, tally)
                gaps = _gaps(plan, tally)
                told = tally.worst_case(_told(doubts, gaps))
                log.write(told)
                is_complete = True
            except KeyboardInterrupt:
                log.interrupted()
                told, is_complete = tally.worst_case(), False
    return Evaluation(
        outcomes=(*tally.outcomes, *told),
        clean_accuracy=samples.clean_accuracy,
        samples=len(samples.x),
        norm=norm,
        run=log.run,
        interrupted=not is_complete,
        masking=tuple(doubts),
        gap=gaps,
        median_minimum_norm=float(np.median(tally.minimum_norms)),
    )


def _sweep(plan: Plan, tally: Tally, log: OutcomeLog, done: Checkpoint, progress: EvaluationProgress | None) -> None:
    for number, (label, attack) in enumerate(plan.attacks.items()):
        advance = _advance(progress, number, len(plan.attacks), label) if progress else None
        for budget, found in _reached(plan, attack, label, tally, done, advance):
            tally.add(attack, label, budget, found, cascade=plan.cascade)
            log.write([tally.outcomes[-1], *tally.worst_case()])


def _reached(
    plan: Plan, attack: Attack, label: str, tally: Tally, done: Checkpoint, advance: Progress | None
) -> Iterator[tuple[float, Reached]]:
    """What the attack reaches at each budget, known ones first: they are the smaller ones.

    A search of the nearest examples is one for all budgets, so it is known as a whole or carried out anew.
    """
    known = {budget: found for budget in plan.budgets if (found := done.get(label, budget)) is not None}
    if attack.finds_minimum and len(known) < len(plan.budgets):
        known = {}
    yield from known.items()
    left = tuple(budget for budget in plan.budgets if budget not in known)
    if not left:
        return
    sweep, standing = Sweep(plan.seed, plan.batch_size, advance, plan.jobs), tally.standing if plan.cascade else None
    attempts = attack.attempts(plan.model, plan.samples, left, sweep, standing)
    for budget, attempt in zip(left, attempts, strict=True):
        found = reached(plan.model, plan.samples, attempt, plan.norm)
        yield budget, found
        done.put(label, budget, found)  # after the store has it: an interrupt between the two loses no outcome


def _doubts(plan: Plan, tally: Tally) -> Iterator[Symptom]:
    sweep = Sweep(plan.seed, plan.batch_size)
    yield from symptoms(plan.model, plan.samples, plan.norm, plan.budgets[-1], sweep)
    if len(tally.lost_by) == 2:
        yield from black_box(tally.lost_by["gradients"], tally.lost_by["without"])


def _gaps(plan: Plan, tally: Tally) -> dict[float, float]:
    """By budget, how much less than plain PGD-40 leaves the worst case leaves."""
    worst = {outcome.epsilon: outcome.accuracy for outcome in tally.worst_case()}
    plain = plain_accuracy(
        plan.model, plan.samples, plan.norm, plan.budgets, Sweep(plan.seed, plan.batch_size, None, plan.jobs)
    )
    return {budget: accuracy - worst[budget] for budget, accuracy in plain.items()}


def _told(doubts: Sequence[Symptom], gaps: Mapping[float, float]) -> Callable[[float], dict[str, Json]]:
    """What the whole evaluation says of each budget's worst case."""
    verdict: dict[str, Json] = {
        "masking": [doubt.name for doubt in doubts],
        "verdict": [{"name": one.name, "value": one.value, "explanation": one.explanation} for one in doubts],
    }
    return lambda budget: verdict | ({"gap": gaps[budget]} if budget in gaps else {})


def _advance(progress: EvaluationProgress, number: int, attacks: int, label: str) -> Progress:
    return lambda done, batches: progress((number + done / batches) / attacks, label)
