"""`mindscope armour measure`: numbers of a model without a budget, and what its defence does to clean answers."""

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ..failures import WrongUse
from ..loading import load_model, load_samples
from ..options import DEFAULT_STORE, JsonOption, StoreOption
from .arguments import BoundsOption, DataOption, HtmlOption, ModelArgument, ParentOption, SeedOption
from .record import check_parent, record, tell
from .told import query_line

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
    queries: Annotated[
        int, typer.Option("--queries", min=0, help="Of Square on both models, with --bare; 0 leaves it out.")
    ] = 0,
    epsilon: Annotated[float, typer.Option("--epsilon", help="Budget of Square, in Linf.")] = 0.1,
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
    if queries and not bare:
        raise WrongUse("--queries compares two models; name the one without the defence with --bare")
    wrapped = wrap(load_model(model), bounds=bounds)
    other = wrap(load_model(bare), bounds=bounds) if bare else None
    x, y = load_samples(data)
    check_parent(store, parent)
    outcomes = _measured(wrapped, x[:samples], y[:samples], cast("Norm", norm), radius, batches, points, seed)
    if other is not None:
        outcomes.append(_defence(other, wrapped, x, y))
        outcomes += [_asked(other, wrapped, x, y, queries, epsilon, seed)] if queries else []
    config: dict[str, Json] = {
        "norm": norm,
        "radius": radius,
        "batches": batches,
        "points": points,
        "seed": seed,
        "queries": queries,
    }
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


def _asked(bare: "Model", defended: "Model", x: Any, y: Any, queries: int, epsilon: float, seed: int) -> "Outcome":
    from ...armour.attacks import Square
    from ...armour.metrics import ask_both
    from ...armour.metrics.outcomes import query_outcome

    found, left = ask_both(bare, defended, x, y, attack=Square(queries=queries), epsilon=epsilon, seed=seed)
    return query_outcome(found, "linf", epsilon, len(x), accuracy=left, allowed=queries, seed=seed)


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
    if outcome.attack == "query defence":
        return query_line(outcome)
    return (
        f"defence: {details['rectify_ratio']:.2%} of the answers mended, {details['sacrifice_ratio']:.2%} spoiled, "
        f"accuracy {details['accuracy_variance']:+.2%}"
    )
