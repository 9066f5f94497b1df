"""`mindscope armour measure`: numbers of a model without a budget, and what its defence does to clean answers."""

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ..failures import WrongUse
from ..loading import load_model, load_samples
from ..options import DEFAULT_STORE, JsonOption, StoreOption
from .arguments import BoundsOption, DataOption, HtmlOption, ModelArgument, ParentOption, SeedOption
from .record import check_parent, record, tell

if TYPE_CHECKING:
    from ...armour import Model, Norm
    from ...storage import Json, Outcome


def measure(
    model: ModelArgument,
    data: DataOption,
    bare: Annotated[
        str, typer.Option("--bare", metavar="TARGET", help="The model without its defence, to compare with.")
    ] = "",
    norm: Annotated[str, typer.Option("--norm", help="Of CLEVER: l2, linf or l1.")] = "l2",
    radius: Annotated[float, typer.Option("--radius", help="Of the ball in which CLEVER looks.")] = 2.0,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Inputs that CLEVER and DeepFool see.")] = 20,
    batches: Annotated[int, typer.Option("--batches", help="Maxima that CLEVER fits; the paper takes 500.")] = 50,
    points: Annotated[int, typer.Option("--points", help="Gradients for each maximum; the paper takes 1024.")] = 100,
    bounds: BoundsOption = (0.0, 1.0),
    store: StoreOption = DEFAULT_STORE,
    parent: ParentOption = "",
    seed: SeedOption = 0,
    html: HtmlOption = "",
    as_document: JsonOption = False,
) -> int:
    """Measure CLEVER and empirical robustness, and with --bare what a defence mends and spoils."""
    from ...armour import wrap

    if norm not in ("l1", "l2", "linf"):
        raise WrongUse(f"--norm expects l2, linf or l1, got {norm!r}")
    wrapped = wrap(load_model(model), bounds=bounds)
    other = wrap(load_model(bare), bounds=bounds) if bare else None
    x, y = load_samples(data)
    check_parent(store, parent)
    outcomes = _measured(wrapped, x[:samples], y[:samples], cast("Norm", norm), radius, batches, points, seed)
    if other is not None:
        outcomes.append(_defence(other, wrapped, x, y))
    config: dict[str, Json] = {"norm": norm, "radius": radius, "batches": batches, "points": points, "seed": seed}
    run = record(outcomes, store, name="metrics", parent=parent, config=config, framework=wrapped.framework)
    tell(outcomes, [_line(one) for one in outcomes], run, store, json=as_document, html=html)
    return 0


def _measured(
    model: "Model", x: Any, y: Any, norm: "Norm", radius: float, batches: int, points: int, seed: int
) -> "list[Outcome]":
    from ...armour.metrics import clever, empirical_robustness
    from ...armour.metrics.outcomes import clever_outcome, empirical_robustness_outcome

    share = empirical_robustness(model, x, y, seed=seed)  # first: it checks inputs and classes
    scores = clever(model, x, radius=radius, norm=norm, batches=batches, points=points, seed=seed)
    return [
        clever_outcome(scores, norm, radius, batches=batches, points=points, seed=seed),
        empirical_robustness_outcome(share, "l2", len(x), attack="deepfool", seed=seed),
    ]


def _defence(bare: "Model", defended: "Model", x: Any, y: Any) -> "Outcome":
    from ...armour.metrics import defence_quality
    from ...armour.metrics.outcomes import defence_outcome
    from ...armour.model.confidence import probabilities

    before, after = probabilities(bare, x), probabilities(defended, x)
    return defence_outcome(defence_quality(before, after, y), float((after.argmax(axis=1) == y).mean()), len(x))


def _line(outcome: "Outcome") -> str:
    details: Any = outcome.details
    if outcome.attack == "clever":
        return (
            f"clever ({outcome.norm}): the nearest other class is about {outcome.median_distance:.4g} away in the "
            f"median of {outcome.samples}, {details['least']:.4g} at least; an estimate, no certificate"
        )
    if outcome.attack == "empirical robustness":
        value = details["value"]
        told = "no sample to measure" if value is None else f"{value:.4g} of the input's length fools the model"
        return f"empirical robustness ({outcome.norm}): {told}"
    return (
        f"defence: {details['rectify_ratio']:.2%} of the answers mended, {details['sacrifice_ratio']:.2%} spoiled, "
        f"accuracy {details['accuracy_variance']:+.2%}"
    )
