"""`mindscope armour certify`: lower bounds of robustness."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..failures import INTERRUPTED, WrongUse
from ..output import remark
from ..store_options import DEFAULT_STORE, JsonOption, StoreOption
from ..user_code import load_model
from .armour_arguments import (
    BoundsOption,
    DataOption,
    EpsilonsOption,
    HtmlOption,
    LimitOption,
    ModelArgument,
    NameOption,
    ParentOption,
    SeedOption,
    attacked_samples,
    bounds_in,
    numbers,
    wrapped,
)
from .outcome_run import check_parent, print_outcomes, progress_bar, record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ...armour import WrappedModel
    from ...storage import Json, Outcome

_USUAL_SHARES: Final = (0.01, 0.03, 0.1)  # of the bounds' width
_NONE: list[str] = []  # the usual budgets
_METHODS = ("crown", "ibp", "smoothing")


def certify(
    model: ModelArgument,
    data: DataOption,
    method: Annotated[
        str,
        typer.Option(
            "--method", help="crown or ibp: bounds of a network of simple layers; smoothing: any model, in L2."
        ),
    ] = "crown",
    norm: Annotated[str, typer.Option("--norm", help="Norm of the budgets: linf or l2; smoothing only l2.")] = "linf",
    epsilons: EpsilonsOption = _NONE,
    sigma: Annotated[float, typer.Option("--sigma", help="Standard deviation of the noise for smoothing.")] = 0.1,
    trials: Annotated[
        int, typer.Option("--trials", min=1, help="Noisy copies with which smoothing certifies.")
    ] = 10_000,
    alpha: Annotated[float, typer.Option("--alpha", help="Probability that a smoothing radius is too large.")] = 0.001,
    bounds: BoundsOption = "",
    limit: LimitOption = 0,
    store: StoreOption = DEFAULT_STORE,
    name: NameOption = "",
    parent: ParentOption = "",
    seed: SeedOption = 0,
    html: HtmlOption = "",
    as_document: JsonOption = False,
) -> int:
    """Prove which predictions hold within a budget: a lower bound, beside the upper one of the attacks."""
    if method not in _METHODS:
        raise WrongUse(f"--method expects {', '.join(_METHODS)}, got {method!r}")
    box = bounds_in(bounds)
    budgets = sorted(numbers(epsilons, "--epsilons")) or [share * (box[1] - box[0]) for share in _USUAL_SHARES]
    network = load_model(model)
    x, y = attacked_samples(data, limit)
    check_parent(store, parent)
    config: dict[str, Json] = {"method": method, "norm": norm, "epsilons": list(budgets), "seed": seed}
    outcomes: list[Outcome] = []
    is_interrupted = False
    try:
        if method == "smoothing":
            outcomes += _certify_by_smoothing(
                wrapped(network, bounds, model), x, y, budgets, sigma=sigma, trials=trials, alpha=alpha, seed=seed
            )
            config |= {"norm": "l2", "sigma": sigma, "trials": trials, "alpha": alpha}
        else:
            network = _bounded(network)
            with progress_bar(method) as report_progress:
                for number, budget in enumerate(budgets):
                    outcomes += _certify_by_bounds(network, x, y, budget, bounds=box, method=method, norm=norm)
                    report_progress((number + 1) / len(budgets), f"{method} {budget:g}")
    except KeyboardInterrupt:
        is_interrupted = True
    if not outcomes:
        raise KeyboardInterrupt
    run = record(outcomes, store, name=name or f"certified {method}", parent=parent, config=config)
    lines = [f"certified accuracy of {outcomes[0].samples} samples ({outcomes[0].norm}, {method})"]
    lines += [f"{outcome.epsilon:<8g} {outcome.accuracy:.3f}" for outcome in outcomes]
    print_outcomes(outcomes, lines, run, store, json=as_document, html=html)
    if is_interrupted:
        remark("interrupted; the budgets above were complete")
    return INTERRUPTED if is_interrupted else 0


def _bounded(network: object) -> object:
    """Return the network in evaluation mode, in a form through which bounds are known."""
    from ...armour.certificates.certify import as_cell
    from ...framework.nn import Cell

    if isinstance(network, Cell):
        network.set_train(False)
    elif hasattr(network, "eval"):
        network.eval()
    return as_cell(network)


def _certify_by_bounds(
    network: object,
    x: "NDArray[np.generic]",
    y: "NDArray[np.generic]",
    budget: float,
    *,
    bounds: tuple[float, float],
    method: str,
    norm: str,
) -> "list[Outcome]":
    from ...armour.certificates import certify as proven
    from ...armour.certificates.certify import certificate_outcomes

    # The names are checked by the function itself, which lists the known ones.
    return certificate_outcomes(proven(network, x, y, budget, norm=norm, method=method, bounds=bounds))  # type: ignore[arg-type]


def _certify_by_smoothing(
    model: "WrappedModel",
    x: "NDArray[np.generic]",
    y: "NDArray[np.generic]",
    budgets: list[float],
    *,
    sigma: float,
    trials: int,
    alpha: float,
    seed: int,
) -> "list[Outcome]":
    from ...armour.certificates import smooth
    from ...armour.certificates.smoothing import smoothing_outcomes

    found = smooth(model, x, sigma, trials=trials, alpha=alpha, seed=seed)
    return smoothing_outcomes(found, y, budgets, sigma=sigma, trials=trials, alpha=alpha)
