"""`mindscope armour measure` and `detect`: numbers of a model and its defence, and of detectors of attacks."""

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, cast

import typer

from ..failures import WrongUse
from ..store_options import DEFAULT_STORE, JsonOption, StoreOption
from ..user_code import load_samples
from .armour_arguments import (
    BoundsOption,
    DataOption,
    HtmlOption,
    ModelArgument,
    NameOption,
    ParentOption,
    SeedOption,
    attacked_model,
    number,
    split,
    width_of,
)
from .outcome_run import check_parent, print_outcomes, query_line, record

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ...armour import Attack, Norm, WrappedModel
    from ...armour.detectors import Alarm
    from ...storage import Json, Outcome


_USUAL_SHARE: Final = 0.1  # of the bounds' width, which a budget has by default


def measure(
    model: ModelArgument,
    data: DataOption,
    bare: Annotated[
        str, typer.Option("--bare", metavar="TARGET", help="The model without its defence, to compare with.")
    ] = "",
    norm: Annotated[str, typer.Option("--norm", help="Norm for CLEVER: l2, linf or l1.")] = "l2",
    radius: Annotated[float, typer.Option("--radius", help="Radius of the ball that CLEVER samples.")] = 2.0,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Number of inputs for CLEVER and DeepFool.")] = 20,
    batches: Annotated[
        int, typer.Option("--batches", help="Batches whose maxima CLEVER fits; the paper takes 500.")
    ] = 50,
    points: Annotated[int, typer.Option("--points", help="Gradients in each batch; the paper takes 1024.")] = 100,
    queries: Annotated[
        int, typer.Option("--queries", min=0, help="Queries of Square on both models, with --bare; 0 skips it.")
    ] = 0,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--epsilon", parser=number, metavar="E", help="Budget of Square, in Linf; 10 % of the bounds' width."
        ),
    ] = None,
    bounds: BoundsOption = "",
    store: StoreOption = DEFAULT_STORE,
    name: NameOption = "metrics",
    parent: ParentOption = "",
    seed: SeedOption = 0,
    html: HtmlOption = "",
    as_document: JsonOption = False,
) -> int:
    """Measure CLEVER and empirical robustness, and with --bare the effect of a defence on clean answers."""
    if norm not in ("l1", "l2", "linf"):
        raise WrongUse(f"--norm expects l2, linf or l1, got {norm!r}")
    if queries and not bare:
        raise WrongUse("--queries compares two models; name the one without the defence with --bare")
    wrapped = attacked_model(model, bounds)
    other = attacked_model(bare, bounds) if bare else None
    budget = _USUAL_SHARE * width_of(wrapped) if epsilon is None else epsilon
    x, y = load_samples(data)
    check_parent(store, parent)
    outcomes = _measure_model(
        wrapped,
        x[:samples],
        y[:samples],
        cast("Norm", norm),
        radius=radius,
        batches=batches,
        points=points,
        seed=seed,
    )
    if other is not None:
        outcomes.append(_defence(other, wrapped, x, y))
        outcomes += (
            [_query_defence(other, wrapped, x, y, queries=queries, epsilon=budget, seed=seed)] if queries else []
        )
    config: dict[str, Json] = {
        "norm": norm,
        "radius": radius,
        "batches": batches,
        "points": points,
        "seed": seed,
        "queries": queries,
    }
    run = record(outcomes, store, name=name, parent=parent, config=config, framework=wrapped.framework)
    print_outcomes(outcomes, [_line(outcome) for outcome in outcomes], run, store, json=as_document, html=html)
    return 0


def _measure_model(
    model: "WrappedModel",
    x: "NDArray[np.generic]",
    y: "NDArray[np.generic]",
    norm: "Norm",
    *,
    radius: float,
    batches: int,
    points: int,
    seed: int,
) -> "list[Outcome]":
    from ...armour.evaluation.masking import model_signs
    from ...armour.metrics import clever, smallest_changes
    from ...armour.metrics.metric_outcomes import clever_outcome, empirical_robustness_outcome

    changes = smallest_changes(model, x, y, seed=seed)  # first: it checks inputs and classes
    scores = clever(model, x, radius=radius, norm=norm, batches=batches, points=points, seed=seed)
    signs = model_signs(model, x, y, norm, seed=seed)
    return [
        clever_outcome(scores, norm, radius, batches=batches, points=points, seed=seed, signs=signs),
        empirical_robustness_outcome(changes, "l2", attack="deepfool", seed=seed, signs=signs),
    ]


def _defence(
    bare: "WrappedModel", defended: "WrappedModel", x: "NDArray[np.generic]", y: "NDArray[np.generic]"
) -> "Outcome":
    from ...armour.metrics import defence_quality
    from ...armour.metrics.metric_outcomes import defence_outcome
    from ...armour.model.classifier import probabilities

    before, after = probabilities(bare, x), probabilities(defended, x)
    return defence_outcome(defence_quality(before, after, y), float((after.argmax(axis=1) == y).mean()), len(x))


def _query_defence(
    bare: "WrappedModel", defended: "WrappedModel", x: Any, y: Any, *, queries: int, epsilon: float, seed: int
) -> "Outcome":
    from ...armour.attacks import Square
    from ...armour.metrics import ask_both
    from ...armour.metrics.metric_outcomes import query_outcome

    found, left = ask_both(bare, defended, x, y, attack=Square(queries=queries), epsilon=epsilon, seed=seed)
    return query_outcome(found, "linf", epsilon, len(x), accuracy=left, allowed=queries, seed=seed)


def _line(outcome: "Outcome") -> str:
    details: Any = outcome.details
    if outcome.attack == "clever":
        return (
            f"clever ({outcome.norm}): the nearest other class is about {outcome.median_distance:.4g} away in the "
            f"median of {outcome.samples}, {details['least']:.4g} at least; an estimate, no certificate"
            f"{_stopped(details, outcome.epsilon)}{_doubts(details)}"
        )
    if outcome.attack == "empirical robustness":
        value = details["value"]
        share = "no sample to measure" if value is None else f"{value:.4g} of the input's length fools the model"
        missing = details["without_example"]
        left_out = f"; {missing} of {outcome.samples} have no example and are left out" if missing else ""
        return f"empirical robustness ({outcome.norm}): {share}{left_out}{_doubts(details)}"
    if outcome.attack == "query defence":
        return query_line(outcome)
    return (
        f"defence: {details['rectify_ratio']:.2%} of the answers mended, {details['sacrifice_ratio']:.2%} spoiled, "
        f"accuracy {details['accuracy_variance']:+.2%}"
    )


def _stopped(details: Any, radius: float) -> str:
    return f"; {details['at_radius']} stopped at the radius {radius:g}" if details["at_radius"] else ""


def _doubts(details: Any) -> str:
    """Return the lines that say why a distance is too large to be believed."""
    return "".join(
        f"\ndo not trust this distance ({sign['name']}): {sign['explanation']}" for sign in details["verdict"]
    )


_USUAL = ["feature-squeezing,magnet-error,mahalanobis"]


class _Parts(NamedTuple):
    """Inputs and classes to fit detectors, to set thresholds, and to attack."""

    fitted: "tuple[Any, Any]"
    calibrated: "tuple[Any, Any]"
    attacked: "tuple[Any, Any]"


def detect(
    model: ModelArgument,
    data: DataOption,
    detectors: Annotated[
        list[str],
        typer.Option(
            "--detectors",
            "--detector",
            metavar="NAME,...",
            help="Detectors, separated by commas or repeated; an unknown name lists all.",
        ),
    ] = _USUAL,
    attack: Annotated[
        str, typer.Option("--attack", metavar="NAME[:OPTION=VALUE,...]", help="Attack to detect.")
    ] = "pgd",
    norm: Annotated[str, typer.Option("--norm", help="Norm of the budget: linf, l2, l1 or l0.")] = "linf",
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", parser=number, metavar="E", help="Budget of the attack; 10 % of the bounds' width."),
    ] = None,
    rate: Annotated[float, typer.Option("--rate", help="Share of clean inputs that may raise a false alarm.")] = 0.05,
    queries: Annotated[
        int,
        typer.Option("--queries", min=0, help="Queries of Square, to measure the cost of each detector; 0 skips it."),
    ] = 0,
    bounds: BoundsOption = "",
    store: StoreOption = DEFAULT_STORE,
    name: NameOption = "detectors",
    parent: ParentOption = "",
    seed: SeedOption = 0,
    html: HtmlOption = "",
    as_document: JsonOption = False,
) -> int:
    """Measure detectors of attacks: what they catch, how often they are wrong, and what they cost."""
    from ...armour.contract.attack_words import attacks_in
    from ...armour.detectors import calibrate, fit_detector

    searches = attacks_in([attack], cast("Norm", norm))
    if len(searches) != 1:
        raise WrongUse(f"--attack expects one attack, got {attack!r}")
    wrapped = attacked_model(model, bounds)
    budget = _USUAL_SHARE * width_of(wrapped) if epsilon is None else epsilon
    names = split(detectors)
    parts = _thirds(*load_samples(data), seed)
    check_parent(store, parent)
    alarms = {
        detector: calibrate(
            fit_detector(detector, wrapped, *parts.fitted), parts.calibrated[0], false_positive_rate=rate
        )
        for detector in names
    }
    outcomes = _measure_detectors(wrapped, alarms, parts, attack=searches[0], epsilon=budget, rate=rate, seed=seed)
    if queries:
        outcomes += _costs(wrapped, alarms, parts, norm=cast("Norm", norm), epsilon=budget, queries=queries, seed=seed)
    config: dict[str, Json] = {
        "detectors": list(names), "attack": attack, "norm": norm, "epsilon": budget, "rate": rate, "queries": queries,
        "seed": seed,
    }  # fmt: skip
    run = record(outcomes, store, name=name, parent=parent, config=config, framework=wrapped.framework)
    print_outcomes(outcomes, [_detector_line(outcome) for outcome in outcomes], run, store, json=as_document, html=html)
    return 0


def _thirds(x: Any, y: Any, seed: int) -> _Parts:
    """Shuffle the samples and split them in three: a threshold set where it is measured is too good."""
    import numpy as np

    if len(x) < 3:
        raise WrongUse(f"detect expects 3 samples or more, to fit, calibrate and attack; got {len(x)}")
    order = np.random.default_rng(seed).permutation(len(x))
    return _Parts(*((x[rows], y[rows]) for rows in np.array_split(order, 3)))


def _measure_detectors(
    model: "WrappedModel",
    alarms: "dict[str, Alarm]",
    parts: _Parts,
    *,
    attack: "Attack",
    epsilon: float,
    rate: float,
    seed: int,
) -> "list[Outcome]":
    """Return one outcome for every detector; all see the same adversarial inputs."""
    from ...armour.array_api import to_numpy
    from ...armour.metrics import detector_quality
    from ...armour.metrics.metric_outcomes import detector_outcome

    x, y = parts.attacked
    found = attack(model, x, y, epsilons=[epsilon], seed=seed)
    adversarial = to_numpy(found.adversarials[-1])[found.success[-1]]
    outcomes = []
    for name, alarm in alarms.items():
        measured = detector_quality(alarm, x, adversarial)
        outcomes.append(
            detector_outcome(
                name, measured, attack.norm, epsilon, len(adversarial), attack=attack.name, allowed=rate, seed=seed
            )
        )
    return outcomes


def _costs(
    model: "WrappedModel",
    alarms: "dict[str, Alarm]",
    parts: _Parts,
    *,
    norm: "Norm",
    epsilon: float,
    queries: int,
    seed: int,
) -> "list[Outcome]":
    """Return the outcome of a query attack for each alarm in front of the model."""
    from ...armour.attacks import Square
    from ...armour.metrics import ask_both
    from ...armour.metrics.metric_outcomes import query_outcome

    (x, y), square = parts.attacked, Square(norm=norm, queries=queries)
    outcomes = []
    for name, alarm in alarms.items():
        found, left = ask_both(model, model, x, y, attack=square, epsilon=epsilon, alarm=alarm, seed=seed)
        outcomes.append(
            query_outcome(found, norm, epsilon, len(x), accuracy=left, allowed=queries, seed=seed, detector=name)
        )
    return outcomes


def _detector_line(outcome: "Outcome") -> str:
    details: Any = outcome.details
    if outcome.attack.startswith("query defence"):
        return query_line(outcome)
    return (
        f"{outcome.attack}: {details['detection_rate']:.1%} {_between(details['detection_interval'], '.1%')} of "
        f"{outcome.samples} adversarial inputs detected, {details['false_positive_rate']:.1%} "
        f"{_between(details['false_positive_interval'], '.1%')} of {details['clean']} clean ones taken for such, "
        f"AUC {details['auc']:.3f} {_between(details['auc_interval'], '.3f')}"
    )


def _between(ends: "Sequence[float]", form: str) -> str:
    return f"[{ends[0]:{form}}, {ends[1]:{form}}]"
