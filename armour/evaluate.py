"""Attacks times budgets: how accurate a model stays, written to the store beside the training that made it."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..storage import Json, Store
from .arrays import Array
from .attack import Attack, Progress, Sweep, check_seed
from .distances import Norm
from .errors import InvalidInput
from .evaluation import Evaluation
from .masking import Symptom, black_box, symptoms, training_mode
from .model import Model, wrap
from .outcome_log import OutcomeLog
from .registry import make_attack
from .samples import Samples, check_epsilons, check_samples
from .suites import Suite, suite_named
from .tally import Tally

#: Told after each batch: the share that is done, 0 to 1, and the attack and budget at work.
EvaluationProgress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """What is to be done, all of it checked."""

    model: Model
    samples: Samples
    attacks: Mapping[str, Attack]
    norm: Norm
    budgets: tuple[float, ...]
    seed: int
    batch_size: int
    cascade: bool

    def details(self) -> dict[str, Json]:
        """What every measurement was made with."""
        return {"seed": self.seed, "bounds": list(self.model.bounds), "versions": _versions(self.model)}

    def config(self) -> dict[str, Json]:
        """Everything that repeats the evaluation, for the stored run."""
        return {
            **self.details(),
            "model": self.model.name,
            "norm": self.norm,
            "epsilons": list(self.budgets),
            "batch_size": self.batch_size,
            "attacks": {label: attack.options() for label, attack in self.attacks.items()},
        }


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
    progress: EvaluationProgress | None = None,
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

    Returns:
        What was done. After Ctrl-C that is what was complete by then, `interrupted` says so, and the stored run failed.

    Raises:
        InvalidInput, InvalidModel, UnknownAttack, RunNotFound: Before anything is attacked or stored.
    """
    check_seed(seed)
    if parent is not None and store is None:
        raise InvalidInput(f"parent {parent!r} expects store=, where that run is kept")
    chosen = _chosen(suite_named(suite) if attacks is None else attacks, norm)
    budgets = tuple(sorted({0.0, *check_epsilons(epsilons)}))
    target = model if isinstance(model, Model) else wrap(model)
    doubts = list(training_mode(target))
    with target.evaluating():
        samples = check_samples(target, x, y, targets=None, margin=0.0, batch_size=batch_size)
        plan = _Plan(
            target, samples, chosen, norm, budgets, int(seed), batch_size, attacks is None and suite != "quick"
        )
        tally = Tally(samples, norm, budgets, plan.details())
        with OutcomeLog(store, name, target.framework, parent, plan.config()) as log:
            is_complete = _sweep(plan, tally, log, progress)
            if is_complete:
                doubts += _doubts(plan, tally)
                log.write(tally.worst_case(masking=[doubt.name for doubt in doubts]))
    return Evaluation(
        outcomes=(*tally.outcomes, *tally.worst_case(masking=[doubt.name for doubt in doubts])),
        clean_accuracy=samples.clean_accuracy,
        samples=len(samples.x),
        norm=norm,
        run=log.run,
        interrupted=not is_complete,
        masking=tuple(doubts),
    )


def _sweep(plan: _Plan, tally: Tally, log: OutcomeLog, progress: EvaluationProgress | None) -> bool:
    """False when the user stopped it; what was complete by then is counted and stored."""
    try:
        for number, (label, attack) in enumerate(plan.attacks.items()):
            advance = _advance(progress, number, len(plan.attacks), label) if progress else None
            standing = tally.standing if plan.cascade else None
            sweep = Sweep(plan.seed, plan.batch_size, advance)
            attempts = attack.attempts(plan.model, plan.samples, plan.budgets, sweep, standing)
            for budget, attempt in zip(plan.budgets, attempts, strict=True):
                tally.add(attack, label, budget, attempt, cascade=plan.cascade)
                log.write([tally.outcomes[-1], *tally.worst_case()])
    except KeyboardInterrupt:
        log.interrupted()
        return False
    return True


def _doubts(plan: _Plan, tally: Tally) -> Iterator[Symptom]:
    sweep = Sweep(plan.seed, plan.batch_size)
    yield from symptoms(plan.model, plan.samples, plan.norm, plan.budgets[-1], sweep)
    if len(tally.lost_by) == 2:
        yield from black_box(tally.lost_by["gradients"], tally.lost_by["without"])


def _chosen(attacks: Sequence[str | Attack], norm: Norm) -> dict[str, Attack]:
    """The attacks by the label under which their outcomes are kept: the name, and the options where names meet."""
    if isinstance(attacks, str) or not attacks:
        raise InvalidInput(f"attacks expects a sequence of names or attacks, got {attacks!r}")
    made = [make_attack(attack, norm) if isinstance(attack, str) else attack for attack in attacks]
    for attack in made:
        if attack.norm != norm:
            raise InvalidInput(
                f"evaluate expects attacks in one norm, norm={norm!r}, got {attack.name} in {attack.norm!r}"
            )
    names = [attack.name for attack in made]
    labels = [attack.name if names.count(attack.name) == 1 else _with_options(attack) for attack in made]
    if len(set(labels)) < len(labels):
        raise InvalidInput(f"attacks expects each attack once, got {', '.join(labels)}")
    return dict(zip(labels, made, strict=True))


def _with_options(attack: Attack) -> str:
    default = make_attack(attack.name, attack.norm).options()
    changed = [f"{key}={value}" for key, value in attack.options().items() if value != default[key]]
    return " ".join([attack.name, *changed])


def _advance(progress: EvaluationProgress, number: int, attacks: int, label: str) -> Progress:
    return lambda done, batches: progress((number + done / batches) / attacks, label)


def _versions(model: Model) -> dict[str, Json]:
    framework = sys.modules.get("torch") if model.framework == "torch" else None
    found: dict[str, Json] = {"numpy": np.__version__}
    if framework is not None:
        found["torch"] = str(framework.__version__)
    return found
