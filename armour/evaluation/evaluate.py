"""Attacks times budgets: how accurate a model stays, written to the store beside the training that made it."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ...storage import Json, Store
from ...storage.evaluation_verdict import Symptom
from ..array_api import Array, Floats
from ..contract.attack import Attack, Progress, SweepOptions, asks_of, check_answers, check_jobs, check_seed
from ..contract.checked_samples import check_epsilons, check_samples, in_shares
from ..distances import Norm
from ..errors import InvalidInput
from ..model import Asks, WrappedModel, wrapped_for
from .answer_signs import drift_sign, logits_of, state_sign
from .attack_plan import AttackPlan, Suite, cascaded, label_attacks, suite_for
from .evaluation_checkpoint import Checkpoint
from .evaluation_report import Evaluation
from .expectation import averaged, check_draws, seeded
from .masking import SIGN_SAMPLES, black_box, plain_accuracy, symptoms
from .outcome_log import OutcomeLog
from .plausibility import budget_warnings, clean_warnings, mode_warnings
from .tally import BudgetSummary, Tally, summarize

_log = logging.getLogger(__name__)

#: Called after each batch with the share that is done, 0 to 1, and the attack and budget at work.
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
    draws: int | None = None,
) -> Evaluation:
    """Measure the accuracy under every attack at every budget, and in the worst case.

    Samples that the model gets wrong without an attack count as lost and are not attacked. The worst case takes every
    sample as lost that any attack defeats within the budget or a smaller one.

    Args:
        model: Made by `wrap` or `wrap_tokens`, or anything that `wrap` takes with inputs in [0, 1], or that
            `wrap_tokens` takes where `x` is a tokenizer's mapping with `input_ids`.
        epsilons: Budgets in the unit of `x`; 0, the clean accuracy, is always among the outcomes. Budgets on another
            scale than the model's bounds are warned of, as is a clean accuracy below a guess's.
        attacks: Names of `ATTACKS`, or attacks with options of their own, all in `norm`; None for those of the suite.
        suite: `quick`, or `standard`: the parameter-free ensemble, each attack on what the ones before it left. For a
            model without gradients both are attacks on its scores or decisions.
        store: Where the outcomes go, as a run of kind `evaluation`, after every attack and budget.
        parent: The training run that made the model: its id, name, or `latest`. Needs `store`.
        seed: Of the random starts; the same seed gives the same outcomes.
        jobs: Processes over which the batches of an attack are spread, by joblib; -1 for one a core. The result is the
            same.
        checkpoint: File (`.npz`) updated after every attack and budget; the same call resumes from it
            after a kill, to the same result, in a run of its own.
        draws: Forward passes over which attacks average a model that answers at random; None takes 10 where the same
            inputs get different answers, else 1. Accuracies are then means over 20 fresh draws, with a 95 % interval.

    Returns:
        The outcomes. After Ctrl-C only the complete ones, with `interrupted` set and the stored run failed.

    Raises:
        InvalidInput, InvalidModel, UnknownAttack, RunNotFound: Before anything is attacked or stored.
    """
    check_seed(seed)
    check_jobs(jobs)
    check_draws(draws)
    if parent is not None and store is None:
        raise InvalidInput(f"parent {parent!r} expects store=, the store that holds the run")
    target = wrapped_for(model, x)
    # Labels show only as the model is asked: a suite is chosen, and attacks that do not fit are refused, twice.
    planned = _planned(attacks, suite, norm, target)
    budgets = tuple(sorted({0.0, *check_epsilons(epsilons)}))
    _check_countable(target, jobs)
    target, x = in_shares(target, x)
    switched = tuple(mode_warnings(target.training_modules()))
    with target.evaluating(), seeded(int(seed)):
        samples = check_samples(
            target, x, y, targets=None, margin=0.0, batch_size=batch_size, asks=_most_asked(planned.values())
        )
        target, samples, jury, chance = averaged(target, samples, draws)
        plan = AttackPlan(
            target,
            samples,
            attacks=_planned(attacks, suite, norm, target),
            norm=norm,
            budgets=budgets,
            seed=int(seed),
            batch_size=batch_size,
            cascade=cascaded(suite, planned) if attacks is None else frozenset(),
            jobs=jobs,
            jury=jury,
            chance=chance,
        )
        remarks = (*switched, *_warnings(plan))
        done = Checkpoint(None if checkpoint is None else Path(checkpoint), plan.config(), samples)
        tally = Tally(samples, norm, budgets, plan.details(), jury)
        before = _clean_logits(plan)
        doubts: list[Symptom] = []
        gaps: dict[float, float] = {}
        with OutcomeLog(store, name, target.framework, parent, plan.config()) as log:
            try:
                _sweep(plan, tally, log, done, progress)
                doubts, gaps = list(_doubts(plan, tally, before)), _gaps(plan, tally)
                worst_case = tally.worst_case(_verdict(doubts, gaps, remarks))
                log.write(worst_case)
                is_complete = True
            except KeyboardInterrupt:
                log.interrupted()
                worst_case, is_complete = tally.worst_case(), False
    return Evaluation(
        outcomes=(*tally.outcomes, *worst_case),
        clean_accuracy=samples.clean_accuracy if jury is None else float(np.mean(1.0 - jury.clean.judged)),
        samples=len(samples.x),
        norm=norm,
        run=log.run,
        interrupted=not is_complete,
        masking=tuple(doubts),
        gap=gaps,
        median_minimum_norm=float(np.median(tally.minimum_norms)),
        answers=target.answers,
        warnings=remarks,
    )


def _warnings(plan: AttackPlan) -> tuple[str, ...]:
    """Return what is possible and hardly meant, and log it before the attacks take their time."""
    x = plan.samples.x
    elements = int(np.prod(x.shape[1:]))
    found = (
        *budget_warnings(plan.norm, plan.budgets[-1], plan.model.bounds, elements),
        *(() if plan.model.task else clean_warnings(plan.samples.clean_accuracy, plan.samples.classes)),
    )
    for sentence in found:
        _log.warning("%s", sentence)
    return found


def _planned(
    attacks: Sequence[str | Attack] | None, suite: Suite, norm: Norm, model: WrappedModel
) -> dict[str, Attack]:
    """Return the attacks by label, all of which the model answers as far as it has been asked."""
    planned = label_attacks(suite_for(suite, norm, model.answers) if attacks is None else attacks, norm)
    for attack in planned.values():
        check_answers(attack, model)
    return planned


def _most_asked(attacks: Iterable[Attack]) -> Asks:
    return "gradients" if any(asks_of(attack) == "gradients" for attack in attacks) else "decisions"


def _check_countable(model: WrappedModel, jobs: int) -> None:
    if model.queries is not None and jobs != 1:
        raise InvalidInput(f"a query budget expects jobs=1, since processes cannot count together, got jobs={jobs}")


def _sweep(
    plan: AttackPlan, tally: Tally, log: OutcomeLog, done: Checkpoint, progress: EvaluationProgress | None
) -> None:
    for number, (label, attack) in enumerate(plan.attacks.items()):
        advance = _advance(progress, number, len(plan.attacks), label) if progress else None
        for budget, summary in _summaries(plan, attack, label, tally, done, advance):
            if summary is None:
                tally.add_not_run(attack, label, budget, "the query budget was spent")
            else:
                tally.add(attack, label, budget, summary, cascade=label in plan.cascade)
            log.write([tally.outcomes[-1], *tally.worst_case()])


def _summaries(
    plan: AttackPlan, attack: Attack, label: str, tally: Tally, done: Checkpoint, advance: Progress | None
) -> Iterator[tuple[float, BudgetSummary | None]]:
    """Yield the attack's summary at each budget, known ones first: they are the smaller ones.

    A search of the nearest examples serves all budgets, so it is known as a whole or repeated. Once the query budget is
    spent, no search begins, and the summary is None.
    """
    known = {budget: summary for budget in plan.budgets if (summary := done.get(label, budget)) is not None}
    if attack.finds_minimum and len(known) < len(plan.budgets):
        known = {}
    yield from known.items()
    left = tuple(budget for budget in plan.budgets if budget not in known)
    if not left:
        return
    sweep = SweepOptions(plan.seed, plan.batch_size, advance, plan.jobs)
    pending = tally.undefeated if label in plan.cascade else None
    attempts = attack.attempts(plan.model, plan.samples, left, sweep, pending)
    has_searched = False
    for budget in left:
        if _is_spent(plan.model) and not (has_searched and attack.finds_minimum):
            yield budget, None
            continue
        summary = summarize(plan.model, plan.samples, next(attempts), plan.norm, plan.jury)
        has_searched = True
        yield budget, summary
        done.put(label, budget, summary)  # after the outcome is stored: an interrupt in between loses no outcome


def _is_spent(model: WrappedModel) -> bool:
    return model.queries is not None and model.queries.is_exhausted


def _clean_logits(plan: AttackPlan) -> Floats | None:
    """Return the outputs for the first samples; None where signs are not looked for: without gradients."""
    if plan.model.answers != "gradients":
        return None
    return logits_of(plan.model, plan.samples.x[:SIGN_SAMPLES])


def _doubts(plan: AttackPlan, tally: Tally, before: Floats | None) -> Iterator[Symptom]:
    """Yield the signs of masking.

    Args:
        before: Logits of the first samples before all attacks, None where signs are not looked for.
    """
    if plan.model.queries is not None and plan.model.queries.is_exhausted:
        not_run = f"; not run: {', '.join(tally.not_run)}" if tally.not_run else ""
        yield Symptom(
            "queries-exhausted",
            float(plan.model.queries.limit),
            f"the query budget of {plan.model.queries.limit} rows was spent before the attacks were done; samples that "
            f"an attack had not reached by then count as robust{not_run}",
        )
    if before is None:
        return
    sweep = SweepOptions(plan.seed, plan.batch_size)
    is_averaged = plan.jury is not None
    signs = symptoms(
        plan.model,
        plan.samples,
        plan.norm,
        plan.budgets[-1],
        sweep,
        is_averaged=is_averaged,
        differing=plan.chance,
    )
    found = list(signs)
    yield from found
    if plan.jury is not None:
        yield from drift_sign(plan.jury.clean.judged, plan.jury.rates(plan.samples.x, plan.samples.labels).judged)
    elif all(symptom.name != "randomness" for symptom in found):
        yield from state_sign(before, logits_of(plan.model, plan.samples.x[: len(before)]))
    if len(tally.lost_by) == 2:
        yield from black_box(tally.lost_by["gradients"], tally.lost_by["without"])


def _gaps(plan: AttackPlan, tally: Tally) -> dict[float, float]:
    """Return by budget how much more accuracy plain PGD-40 leaves than the worst case; empty where none is."""
    if plan.model.answers != "gradients" or plan.jury is not None:
        return {}
    worst = {outcome.epsilon: outcome.accuracy for outcome in tally.worst_case()}
    sweep = SweepOptions(plan.seed, plan.batch_size, None, plan.jobs)
    plain = plain_accuracy(plan.model, plan.samples, plan.norm, plan.budgets, sweep, tally.undefeated)
    return {budget: accuracy - worst[budget] for budget, accuracy in plain.items()}


def _verdict(
    doubts: Sequence[Symptom], gaps: Mapping[float, float], remarks: Sequence[str]
) -> Callable[[float], dict[str, Json]]:
    """Return the details that the whole evaluation adds to each budget's worst case."""
    verdict: dict[str, Json] = {
        "masking": [doubt.name for doubt in doubts],
        "verdict": [{"name": doubt.name, "value": doubt.value, "explanation": doubt.explanation} for doubt in doubts],
        "warnings": list(remarks),
    }
    return lambda budget: verdict | ({"gap": gaps[budget]} if budget in gaps else {})


def _advance(progress: EvaluationProgress, number: int, attacks: int, label: str) -> Progress:
    return lambda done, batches: progress((number + done / batches) / attacks, label)
