"""`mindscope armour detect`: whether attacked inputs can be told from clean ones, and what that costs."""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from ..failures import WrongUse
from ..loading import load_model, load_samples
from ..options import DEFAULT_STORE, JsonOption, StoreOption
from .arguments import BoundsOption, DataOption, HtmlOption, ModelArgument, ParentOption, SeedOption, split
from .record import check_parent, record, tell
from .told import query_line

if TYPE_CHECKING:
    from ...armour import Model, Norm
    from ...armour.detectors import Alarm
    from ...storage import Json, Outcome

_USUAL = ["feature-squeezing,magnet-error,mahalanobis"]


class _Parts(NamedTuple):
    """Inputs and classes that detectors are fitted on, that thresholds are set on, and that are attacked."""

    fitted: "tuple[Any, Any]"
    calibrated: "tuple[Any, Any]"
    attacked: "tuple[Any, Any]"


def detect(
    model: ModelArgument,
    data: DataOption,
    detectors: Annotated[
        list[str],
        typer.Option(
            "--detectors", "--detector", metavar="NAME,...", help="By commas or repeated; a wrong name lists all."
        ),
    ] = _USUAL,
    attack: Annotated[str, typer.Option("--attack", metavar="NAME", help="What is to be told from clean inputs.")] = (
        "pgd"
    ),
    norm: Annotated[str, typer.Option("--norm", help="linf, l2, l1 or l0.")] = "linf",
    epsilon: Annotated[float, typer.Option("--epsilon", help="Budget of the attack.")] = 0.1,
    rate: Annotated[
        float, typer.Option("--rate", help="Share of clean inputs that may be taken for an attack.")
    ] = 0.05,
    queries: Annotated[
        int, typer.Option("--queries", min=0, help="Of Square, to measure what each detector costs; 0 leaves it out.")
    ] = 0,
    bounds: BoundsOption = (0.0, 1.0),
    store: StoreOption = DEFAULT_STORE,
    parent: ParentOption = "",
    seed: SeedOption = 0,
    html: HtmlOption = "",
    as_document: JsonOption = False,
) -> int:
    """Measure detectors of attacks: what they catch, how often they are wrong, and what they cost."""
    from ...armour import wrap
    from ...armour.detectors import calibrate, fit_detector

    wrapped = wrap(load_model(model), bounds=bounds)
    names = split(detectors)
    parts = _thirds(*load_samples(data), seed)
    check_parent(store, parent)
    alarms = {
        name: calibrate(fit_detector(name, wrapped, *parts.fitted), parts.calibrated[0], false_positive_rate=rate)
        for name in names
    }
    outcomes = _detected(wrapped, alarms, parts, attack, cast("Norm", norm), epsilon, rate, seed)
    if queries:
        outcomes += _costs(wrapped, alarms, parts, cast("Norm", norm), epsilon, queries, seed)
    config: dict[str, Json] = {
        "detectors": list(names), "attack": attack, "norm": norm, "epsilon": epsilon, "rate": rate, "queries": queries,
        "seed": seed,
    }  # fmt: skip
    run = record(outcomes, store, name="detectors", parent=parent, config=config, framework=wrapped.framework)
    tell(outcomes, [_line(one) for one in outcomes], run, store, json=as_document, html=html)
    return 0


def _thirds(x: Any, y: Any, seed: int) -> _Parts:
    """The samples in a random order, a third for each purpose: a threshold set where it is measured is too good."""
    import numpy as np

    if len(x) < 3:
        raise WrongUse(f"detect expects 3 samples or more, to fit, to calibrate and to attack; got {len(x)}")
    order = np.random.default_rng(seed).permutation(len(x))
    return _Parts(*((x[rows], y[rows]) for rows in np.array_split(order, 3)))


def _detected(
    model: "Model", alarms: "dict[str, Alarm]", parts: _Parts, attack: str, norm: "Norm", epsilon: float, rate: float,
    seed: int,
) -> "list[Outcome]":  # fmt: skip
    """One outcome for every detector; all are shown the same adversarial inputs."""
    from ...armour.arrays import to_numpy
    from ...armour.contract.registry import make_attack
    from ...armour.metrics import detection
    from ...armour.metrics.outcomes import detector_outcome

    x, y = parts.attacked
    found = make_attack(attack, norm)(model, x, y, epsilons=[epsilon], seed=seed)
    adversarial = to_numpy(found.adversarials[-1])[found.success[-1]]
    outcomes = []
    for name, alarm in alarms.items():
        how: Any = {"attack": attack, "allowed": rate, "seed": seed}
        told = detection(alarm, x, adversarial)
        outcomes.append(detector_outcome(name, told, norm, epsilon, len(adversarial), **how))
    return outcomes


def _costs(
    model: "Model", alarms: "dict[str, Alarm]", parts: _Parts, norm: "Norm", epsilon: float, queries: int, seed: int
) -> "list[Outcome]":
    """What each alarm in front of the model costs who asks it."""
    from ...armour.attacks import Square
    from ...armour.metrics import ask_both
    from ...armour.metrics.outcomes import query_outcome

    (x, y), square = parts.attacked, Square(norm=norm, queries=queries)
    outcomes = []
    for name, alarm in alarms.items():
        found, left = ask_both(model, model, x, y, attack=square, epsilon=epsilon, alarm=alarm, seed=seed)
        how: Any = {"accuracy": left, "allowed": queries, "seed": seed, "detector": name}
        outcomes.append(query_outcome(found, norm, epsilon, len(x), **how))
    return outcomes


def _line(outcome: "Outcome") -> str:
    details: Any = outcome.details
    if outcome.attack.startswith("query defence"):
        return query_line(outcome)
    return (
        f"{outcome.attack}: {details['detection_rate']:.1%} of {outcome.samples} adversarial inputs detected, "
        f"{details['false_positive_rate']:.1%} of clean ones taken for such, AUC {details['auc']:.3f}"
    )
