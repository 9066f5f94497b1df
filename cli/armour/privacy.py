"""`mindscope armour privacy`: what a model gives away of its training data, and what a private training spends."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..failures import WrongUse
from ..loading import load_model, load_named, load_samples
from ..options import DEFAULT_STORE, JsonOption, StoreOption
from .arguments import BoundsOption, HtmlOption, ParentOption, SeedOption
from .progress import bar
from .record import check_parent, record, tell

if TYPE_CHECKING:
    from ...storage import Json, Outcome


def privacy(
    model: Annotated[
        str, typer.Argument(metavar="[TARGET]", help="'file.py:name' of the model; without it only noise is accounted.")
    ] = "",
    data: Annotated[
        str, typer.Option("--data", metavar="FILE.npz", help="x and y that the model was trained on.")
    ] = "",
    others: Annotated[
        str, typer.Option("--others", metavar="FILE.npz", help="x and y of the same kind that it never saw.")
    ] = "",
    trainer: Annotated[
        str,
        typer.Option(
            "--trainer",
            metavar="FILE.py:NAME",
            help="A function (x, y, seed) that trains such a model: adds the shadow and likelihood-ratio attacks.",
        ),
    ] = "",
    shadows: Annotated[int, typer.Option("--shadows", help="Models to train with it; an even number.")] = 16,
    noise: Annotated[
        float, typer.Option("--noise", help="Noise multiplier of a private training; 0 accounts for none.")
    ] = 0.0,
    sample_rate: Annotated[float, typer.Option("--sample-rate", help="Share of the data in a step.")] = 0.01,
    steps: Annotated[int, typer.Option("--steps", help="Steps of the training.")] = 1000,
    delta: Annotated[float, typer.Option("--delta", help="Below one by the number of samples.")] = 1e-5,
    accountant: Annotated[str, typer.Option("--accountant", help="rdp, or pld: tighter.")] = "rdp",
    bounds: BoundsOption = (0.0, 1.0),
    store: StoreOption = DEFAULT_STORE,
    parent: ParentOption = "",
    seed: SeedOption = 0,
    html: HtmlOption = "",
    as_document: JsonOption = False,
) -> int:
    """Attack the privacy of a trained model, account for noise, or both, and store what was found as a run."""
    if not model and not noise:
        raise WrongUse("privacy expects a TARGET with --data and --others to attack, or --noise to account for")
    if model and not (data and others):
        raise WrongUse("privacy expects --data, what the model was trained on, and --others, what it never saw")
    check_parent(store, parent)
    outcomes: list[Outcome] = []
    config: dict[str, Json] = {"seed": seed}
    if noise:
        outcomes.append(_spent(noise, sample_rate, steps, delta, accountant))
        config |= {"noise_multiplier": noise, "sample_rate": sample_rate, "steps": steps, "delta": delta}
    if model:
        outcomes += _leaked(load_model(model), data, others, trainer, shadows, bounds, seed)
        config |= {"model": model, "shadows": shadows if trainer else 0}
    run = record(outcomes, store, name="privacy", parent=parent, config=config)
    tell(outcomes, [_line(one) for one in outcomes], run, store, json=as_document, html=html)
    return 0


def _spent(noise: float, sample_rate: float, steps: int, delta: float, accountant: str) -> "Outcome":
    from ...armour.privacy import Phase
    from ...armour.privacy.outcomes import privacy_outcome

    return privacy_outcome(Phase(noise, sample_rate, steps), delta, accountant)  # type: ignore[arg-type]  # it checks


def _leaked(
    network: object, data: str, others: str, trainer: str, shadows: int, bounds: tuple[float, float], first: int
) -> "list[Outcome]":
    import numpy as np

    from ...armour import wrap
    from ...armour.privacy import lira_attack, shadow_attack, threshold_attack, train_shadows
    from ...armour.privacy.outcomes import membership_outcome

    wrapped, inside, outside = wrap(network, bounds=bounds), load_samples(data), load_samples(others)
    counts = (len(inside[0]), len(outside[0]))
    found = {"threshold": threshold_attack(wrapped, inside, outside)}
    if trainer:
        train: Any = load_named(trainer, what="a trainer")
        x, y = (np.concatenate(parts) for parts in zip(inside, outside, strict=True))
        is_member = np.arange(len(x)) < counts[0]
        with bar("shadow models") as told:

            def trained(x: Any, y: Any, seed: int) -> Any:
                told((seed - first) / shadows, f"shadow model {seed - first + 1} of {shadows}")
                return wrap(train(x, y, seed), bounds=bounds)

            models = train_shadows(trained, x, y, models=shadows, seed=first)
        found["shadow"] = shadow_attack(wrapped, x, y, is_member, models)
        found["lira"] = lira_attack(wrapped, x, y, is_member, models)
    return [membership_outcome(name, leakage, *counts) for name, leakage in found.items()]


def _line(outcome: "Outcome") -> str:
    details: Any = outcome.details
    if details["kind"] == "privacy":
        return f"{outcome.attack}: epsilon {outcome.epsilon:.4g} at delta {details['delta']:g}"
    tpr = details["tpr_at"]
    return (
        f"{outcome.attack}: AUC {details['auc']:.3f}, advantage {details['advantage']:.3f}, "
        f"TPR {tpr['0.001']:.2%} at 0.1 % FPR, {tpr['0.01']:.2%} at 1 % FPR"
    )
