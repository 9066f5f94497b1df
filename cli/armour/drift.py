"""`mindscope armour drift`: whether the data still are what the model was trained on."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..loading import load_samples
from ..options import DEFAULT_STORE, JsonOption, StoreOption
from .arguments import HtmlOption, ParentOption, SeedOption
from .record import check_parent, record, tell

if TYPE_CHECKING:
    from ...storage import Outcome

_MOST = 500  # samples that the kernel test takes of each side: its memory grows with the square


def drift(
    reference: Annotated[str, typer.Argument(metavar="BEFORE.npz", help="x and y from when all was well.")],
    current: Annotated[str, typer.Argument(metavar="NOW.npz", help="x and y of now.")],
    level: Annotated[float, typer.Option("--level", help="Probability of a false alarm.")] = 0.05,
    store: StoreOption = DEFAULT_STORE,
    parent: ParentOption = "",
    seed: SeedOption = 0,
    html: HtmlOption = "",
    as_document: JsonOption = False,
) -> int:
    """Compare two samples of inputs, feature by feature and all together, and store what was found as a run."""
    from ...armour.drift import ks_drift, mmd_drift
    from ...armour.drift.outcomes import drift_outcome

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
    run = record(outcomes, store, name="drift", parent=parent, config={"level": level, "seed": seed})
    tell(outcomes, [_line(one) for one in outcomes], run, store, json=as_document, html=html)
    return 0


def _line(outcome: "Outcome") -> str:
    details: Any = outcome.details
    said = "the data have drifted" if details["has_drifted"] else "no drift is told"
    return f"{outcome.attack}: {said} (statistic {details['statistic']:.4g}, p {details['p_value']:.3g})"
