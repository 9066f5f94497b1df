"""`mindscope armour attacks` and `evaluate`: the catalogue, and the accuracy under attack."""

from typing import TYPE_CHECKING, Annotated, cast

import typer

from ..failures import INTERRUPTED
from ..output import add_row, console, print_json, remark, table
from ..store_options import DEFAULT_STORE, JsonOption, StoreOption
from ..user_code import load_model, load_samples
from .armour_arguments import (
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
from .armour_report import write_report
from .outcome_run import progress_bar

if TYPE_CHECKING:
    from ...armour import Norm
    from ...armour.evaluation.attack_plan import Suite


def attacks(as_document: JsonOption = False) -> int:
    """List the attacks, the norms they know, what they ask of a model and the papers they come from."""
    from ...armour import ATTACKS

    entries = [ATTACKS[name] for name in sorted(ATTACKS)]
    if as_document:
        names = ("name", "norms", "asks", "summary", "reference")
        facts = [(entry.name, entry.norms, entry.asks, _summary(entry.make), entry.reference) for entry in entries]
        print_json({"attacks": [dict(zip(names, fact, strict=True)) for fact in facts]})
        return 0
    listing = table("", "name", "norms", "asks for", "what it does", "paper")
    for entry in entries:
        add_row(listing, entry.name, " ".join(entry.norms), entry.asks, _summary(entry.make), entry.reference)
    console().print(listing)
    return 0


def _summary(attack: type) -> str:
    return (attack.__doc__ or "").partition("\n")[0]


_USUAL_EPSILONS = ["0.01,0.03,0.1,0.3"]
_NO_ATTACKS: list[str] = []  # those of the suite


def evaluate(
    model: ModelArgument,
    data: DataOption,
    epsilons: EpsilonsOption = _USUAL_EPSILONS,
    attacks: Annotated[
        list[str],
        typer.Option(
            "--attacks",
            "--attack",
            metavar="NAME,...",
            help="Attacks instead of a suite, separated by commas or repeated.",
        ),
    ] = _NO_ATTACKS,
    suite: Annotated[
        str,
        typer.Option(
            "--suite", metavar="NAME", help="Set of attacks: quick, or standard, the parameter-free ensemble."
        ),
    ] = "quick",
    norm: Annotated[str, typer.Option("--norm", help="Norm of the budgets: linf, l2, l1 or l0.")] = "linf",
    bounds: BoundsOption = (0.0, 1.0),
    store: StoreOption = DEFAULT_STORE,
    parent: ParentOption = "",
    seed: SeedOption = 0,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1)] = 256,
    jobs: Annotated[int, typer.Option("--jobs", help="Processes for the batches of an attack; -1 for all cores.")] = 1,
    checkpoint: Annotated[
        str,
        typer.Option(
            "--checkpoint", metavar="FILE.npz", help="File for finished work; the same command resumes from it."
        ),
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
    with (
        open_store(store) as opened,
        progress_bar("evaluate") as report_progress,
    ):  # evaluate reports an unknown norm
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
            progress=report_progress,
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
