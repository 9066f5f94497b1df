"""`mindscope armour evaluate`: how accurate a model stays under attack."""

from typing import TYPE_CHECKING, Annotated, cast

import typer

from ..failures import INTERRUPTED
from ..loading import load_model, load_samples
from ..options import DEFAULT_STORE, JsonOption, StoreOption
from ..output import print_json, remark
from .arguments import (
    BoundsOption,
    DataOption,
    EpsilonsOption,
    HtmlOption,
    ModelArgument,
    ParentOption,
    SeedOption,
    numbers,
    split,
)
from .progress import bar
from .report import write_report

if TYPE_CHECKING:
    from ...armour import Norm
    from ...armour.evaluation.suites import Suite

_USUAL_EPSILONS = ["0.01,0.03,0.1,0.3"]
_NO_ATTACKS: list[str] = []  # those of the suite


def evaluate(
    model: ModelArgument,
    data: DataOption,
    epsilons: EpsilonsOption = _USUAL_EPSILONS,
    attacks: Annotated[
        list[str],
        typer.Option("--attacks", "--attack", metavar="NAME,...", help="Instead of a suite, by commas or repeated."),
    ] = _NO_ATTACKS,
    suite: Annotated[
        str, typer.Option("--suite", metavar="NAME", help="quick, or standard: the parameter-free ensemble.")
    ] = "quick",
    norm: Annotated[str, typer.Option("--norm", help="linf, l2, l1 or l0.")] = "linf",
    bounds: BoundsOption = (0.0, 1.0),
    store: StoreOption = DEFAULT_STORE,
    parent: ParentOption = "",
    seed: SeedOption = 0,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1)] = 256,
    jobs: Annotated[int, typer.Option("--jobs", help="Processes for the batches of an attack; -1 for all cores.")] = 1,
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", metavar="FILE.npz", help="Keeps what is done; the same call goes on from it.")
    ] = "",
    html: HtmlOption = "",
    as_document: JsonOption = False,
) -> int:
    """Measure how accurate a model stays under attack, and store the outcomes as a run."""
    from ...armour import evaluate as evaluation_of
    from ...armour import wrap
    from ...storage import open_store

    wrapped = wrap(load_model(model), bounds=bounds)
    x, y = load_samples(data)
    budgets = numbers(epsilons, "--epsilons")
    with open_store(store) as opened, bar("evaluate") as told:  # an unknown norm is told by evaluate itself
        found = evaluation_of(
            wrapped,
            x,
            y,
            budgets,
            attacks=split(attacks) or None,
            suite=cast("Suite", suite),
            norm=cast("Norm", norm),
            store=opened,
            parent=parent or None,
            seed=seed,
            batch_size=batch_size,
            jobs=jobs,
            checkpoint=checkpoint or None,
            progress=told,
        )
    if html:
        write_report(html, found.outcomes)
        remark(f"report written to {html}")
    if as_document:
        print_json(found)
    else:
        print(found.table())
        remark(f"stored as {found.run} in {opened.url}")
    return INTERRUPTED if found.interrupted else 0
