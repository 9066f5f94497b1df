"""`mindscope armour attacks` and `evaluate`: the catalogue, and the accuracy under attack."""

from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from ..failures import INTERRUPTED
from ..output import add_row, as_json, console, print_json, remark, table
from ..store_options import DEFAULT_STORE, JsonOption, StoreOption
from .accuracy_floor import failures, floors_in
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
    attacked_model,
    attacked_samples,
    attacked_texts,
    numbers,
    width_of,
)
from .armour_report import write_report
from .model_options import FrozenOption, IntegerOption, ModelWords, OneHotOption, TaskOption
from .outcome_run import progress_bar

if TYPE_CHECKING:
    from ...armour import Evaluation, Norm
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


_USUAL_SHARES: Final = (0.01, 0.03, 0.1, 0.3)  # of the bounds' width
_NONE: list[str] = []  # the usual budgets; no attacks but those of the suite; no floor
#: Exit code of an evaluation that is below its floor or not to be trusted.
_FAILED: Final = 1


def evaluate(
    model: ModelArgument,
    data: DataOption,
    epsilons: EpsilonsOption = _NONE,
    attacks: Annotated[
        list[str],
        typer.Option(
            "--attacks",
            "--attack",
            metavar="NAME[:OPTION=VALUE,...],...",
            help="Attacks instead of a suite, separated by commas or repeated: fgsm,pgd:steps=100,restarts=2.",
        ),
    ] = _NONE,
    suite: Annotated[
        str,
        typer.Option(
            "--suite", metavar="NAME", help="Set of attacks: quick, or standard, the parameter-free ensemble."
        ),
    ] = "quick",
    norm: Annotated[str, typer.Option("--norm", help="Norm of the budgets: linf, l2, l1 or l0.")] = "linf",
    bounds: BoundsOption = "",
    task: TaskOption = "",
    frozen: FrozenOption = _NONE,
    integer: IntegerOption = _NONE,
    one_hot: OneHotOption = _NONE,
    draws: Annotated[
        int,
        typer.Option(
            "--draws",
            min=0,
            metavar="N",
            help="Passes that attacks average over, of a model that answers at random; 0 measures whether it does.",
        ),
    ] = 0,
    limit: LimitOption = 0,
    fail_under: Annotated[
        list[str],
        typer.Option(
            "--fail-under",
            metavar="ACCURACY[@E]",
            help="Exit with 1 if the worst case at the largest budget, or at budget E, is below this accuracy.",
        ),
    ] = _NONE,
    store: StoreOption = DEFAULT_STORE,
    name: NameOption = "robustness",
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
    """Measure how accurate a model stays under attack, and store the outcomes as a run.

    Exits with 1 if the accuracies are not to be trusted, or below --fail-under.
    """
    from ...armour import evaluate as evaluation_of
    from ...armour.contract.attack_words import attacks_in
    from ...storage import open_store

    budgets = numbers(epsilons, "--epsilons")
    chosen = attacks_in(attacks, cast("Norm", norm))
    texts = attacked_texts(data, limit)
    words = ModelWords(task, frozen, integer, one_hot)
    wrapped = attacked_model(model, bounds, texts, words.wrapping())
    budgets = budgets or [share * width_of(wrapped) for share in _USUAL_SHARES]
    floors = floors_in(fail_under, budgets)
    x, y = texts or attacked_samples(data, limit)
    with (
        open_store(store) as opened,
        progress_bar("evaluate") as report_progress,
    ):  # evaluate reports an unknown norm
        found = evaluation_of(
            wrapped,
            x,
            y,
            budgets,
            attacks=chosen or None,
            suite=cast("Suite", suite),
            norm=cast("Norm", norm),
            store=opened,
            parent=parent or None,
            name=name,
            seed=seed,
            batch_size=batch_size,
            jobs=jobs,
            checkpoint=checkpoint or None,
            progress=report_progress,
            draws=draws or None,
        )
    if html:
        write_report(html, found.outcomes)
        remark(f"report written to {html}")
    if as_document:
        print_json(_document(found))
    else:
        print(found.table())
        remark(f"stored as {found.run} in {opened.url}")
    if found.interrupted:
        return INTERRUPTED
    failed = list(failures(found, floors))
    for sentence in failed:
        remark(f"failed: {sentence}")
    return _FAILED if failed else 0


def _document(found: "Evaluation") -> dict[str, object]:
    worst = [{"norm": found.norm, "epsilon": at, "accuracy": left} for at, left in found.accuracy().items()]
    return {**as_json(found), "worst_case": worst, "is_trusted": found.is_trusted}
