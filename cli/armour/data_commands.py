"""`mindscope armour privacy` and `drift`: leakage of training data, and drift of new data."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..failures import WrongUse
from ..store_options import DEFAULT_STORE, JsonOption, StoreOption
from ..user_code import load_model, load_named, load_samples
from .armour_arguments import BoundsOption, HtmlOption, NameOption, ParentOption, SeedOption, wrapped
from .outcome_run import check_parent, print_outcomes, progress_bar, record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...storage import Json, Outcome


def privacy(
    model: Annotated[
        str, typer.Argument(metavar="[TARGET]", help="'file.py:name' of the model; without it only noise is accounted.")
    ] = "",
    data: Annotated[
        str, typer.Option("--data", metavar="FILE.npz", help="x and y that the model was trained on.")
    ] = "",
    others: Annotated[
        str, typer.Option("--others", metavar="FILE.npz", help="x and y of the same kind that the model never saw.")
    ] = "",
    trainer: Annotated[
        str,
        typer.Option(
            "--trainer",
            metavar="FILE.py:NAME",
            help="A function (x, y, seed) that trains such a model: adds the shadow and likelihood-ratio attacks.",
        ),
    ] = "",
    shadows: Annotated[int, typer.Option("--shadows", help="Shadow models to train, an even number.")] = 16,
    noise: Annotated[
        float, typer.Option("--noise", help="Noise multiplier of a private training; 0 for no accounting.")
    ] = 0.0,
    sample_rate: Annotated[float, typer.Option("--sample-rate", help="Share of the data in a step.")] = 0.01,
    steps: Annotated[int, typer.Option("--steps", help="Steps of the training.")] = 1000,
    delta: Annotated[
        float, typer.Option("--delta", help="Delta of the privacy guarantee, below 1 / number of samples.")
    ] = 1e-5,
    accountant: Annotated[str, typer.Option("--accountant", help="rdp, or pld, which is tighter.")] = "rdp",
    bounds: BoundsOption = "",
    store: StoreOption = DEFAULT_STORE,
    name: NameOption = "privacy",
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
        outcomes.append(_account(noise, sample_rate, steps, delta, accountant))
        config |= {"noise_multiplier": noise, "sample_rate": sample_rate, "steps": steps, "delta": delta}
    if model:
        outcomes += _attack_privacy(
            model, data, others, trainer=trainer, shadows=shadows, bounds=bounds, first_seed=seed
        )
        config |= {"model": model, "shadows": shadows if trainer else 0}
    run = record(outcomes, store, name=name, parent=parent, config=config)
    print_outcomes(outcomes, [_line(outcome) for outcome in outcomes], run, store, json=as_document, html=html)
    return 0


def _account(noise: float, sample_rate: float, steps: int, delta: float, accountant: str) -> "Outcome":
    from ...armour.privacy import Phase
    from ...armour.privacy.privacy_outcomes import privacy_outcome

    return privacy_outcome(Phase(noise, sample_rate, steps), delta, accountant)  # type: ignore[arg-type]  # it checks


def _attack_privacy(
    target: str,
    data: str,
    others: str,
    *,
    trainer: str,
    shadows: int,
    bounds: str,
    first_seed: int,
) -> "list[Outcome]":
    import numpy as np
    from numpy.typing import NDArray

    from ...armour import WrappedModel
    from ...armour.privacy import lira_attack, shadow_attack, threshold_attack, train_shadows
    from ...armour.privacy.privacy_outcomes import membership_outcome

    attacked = wrapped(load_model(target), bounds, target)
    inside, outside = load_samples(data), load_samples(others)
    found = {"threshold": threshold_attack(attacked, inside, outside)}
    if trainer:
        train: Any = load_named(trainer, what="a trainer")
        x, y = (np.concatenate(parts) for parts in zip(inside, outside, strict=True))
        is_member = np.arange(len(x)) < len(inside[0])
        with progress_bar("shadow models") as report_progress:

            def train_shadow(x: NDArray[np.float64], y: NDArray[np.int64], seed: int) -> WrappedModel:
                report_progress((seed - first_seed) / shadows, f"shadow model {seed - first_seed + 1} of {shadows}")
                return wrapped(train(x, y, seed), bounds, trainer)

            models = train_shadows(train_shadow, x, y, models=shadows, seed=first_seed)
        found["shadow"] = shadow_attack(attacked, x, y, is_member, models)
        found["lira"] = lira_attack(attacked, x, y, is_member, models)
    return [membership_outcome(name, leakage) for name, leakage in found.items()]


def _line(outcome: "Outcome") -> str:
    details: Any = outcome.details
    if details["kind"] == "privacy":
        return f"{outcome.attack}: epsilon {outcome.epsilon:.4g} at delta {details['delta']:g}"
    rates = [
        f"TPR {share:.2%} {_between(details['tpr_intervals'][rate], '.2%')} at {100 * float(rate):.3g} % FPR"
        for rate, share in details["tpr_at"].items()
    ]
    unresolved = "; no rate at 0.1 % FPR, which needs 1000 others" if "0.001" not in details["tpr_at"] else ""
    return (
        f"{outcome.attack}: AUC {details['auc']:.3f} {_between(details['auc_interval'])}, advantage "
        f"{details['advantage']:.3f} {_between(details['advantage_interval'])}, {', '.join(rates)}{unresolved}"
    )


def _between(ends: "Sequence[float]", form: str = ".3f") -> str:
    return f"[{ends[0]:{form}}, {ends[1]:{form}}]"


_MOST = 500  # samples that the kernel test takes of each side: its memory grows with the square


def drift(
    reference: Annotated[str, typer.Argument(metavar="BEFORE.npz", help="x and y from when all was well.")],
    current: Annotated[str, typer.Argument(metavar="NOW.npz", help="x and y of now.")],
    level: Annotated[float, typer.Option("--level", help="Probability of a false alarm.")] = 0.05,
    store: StoreOption = DEFAULT_STORE,
    name: NameOption = "drift",
    parent: ParentOption = "",
    seed: SeedOption = 0,
    html: HtmlOption = "",
    as_document: JsonOption = False,
) -> int:
    """Compare two samples of inputs, feature by feature and all together, and store what was found as a run."""
    from ...armour.drift import drift_outcome, ks_drift, mmd_drift

    (before, _), (now, _) = load_samples(reference), load_samples(current)
    check_parent(store, parent)
    tests = {
        "ks": ks_drift(before, now, level=level),
        "mmd": mmd_drift(before[:_MOST], now[:_MOST], level=level, seed=seed),
    }
    outcomes = [
        drift_outcome(test, found, level=level, reference=len(before), current=len(now))
        for test, found in tests.items()
    ]
    run = record(outcomes, store, name=name, parent=parent, config={"level": level, "seed": seed})
    print_outcomes(outcomes, [_drift_line(outcome) for outcome in outcomes], run, store, json=as_document, html=html)
    return 0


def _drift_line(outcome: "Outcome") -> str:
    details: Any = outcome.details
    verdict = "the data have drifted" if details["has_drifted"] else "no drift was found"
    return f"{outcome.attack}: {verdict} (statistic {details['statistic']:.4g}, p {details['p_value']:.3g})"
