"""`mindscope armour fuzz`: inputs that show new behaviour, and the accuracy left when values break."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..failures import INTERRUPTED, WrongUse
from ..output import remark
from ..store_options import DEFAULT_STORE, JsonOption, StoreOption
from ..user_code import load_model
from .armour_arguments import (
    BoundsOption,
    DataOption,
    HtmlOption,
    LimitOption,
    ModelArgument,
    NameOption,
    ParentOption,
    SeedOption,
    attacked_samples,
    bounds_in,
    number,
)
from .outcome_run import check_parent, print_outcomes, progress_bar, record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ...armour.fuzz import Coverage, Mutators, Watched
    from ...storage import Json, Outcome

_WHERE = ("weights", "activations", "both", "none")
_NO_ATTACKS: list[str] = []


def fuzz(
    model: ModelArgument,
    data: DataOption,
    rounds: Annotated[
        int, typer.Option("--rounds", min=0, help="Rounds in all, those of a resumed corpus included.")
    ] = 20,
    mutants: Annotated[int, typer.Option("--mutants", min=1, help="Mutants in each round.")] = 32,
    attacks: Annotated[
        list[str],
        typer.Option(
            "--attacks",
            metavar="NAME[:OPTION=VALUE,...],...",
            help="Attacks that mutate inputs, besides the natural transforms.",
        ),
    ] = _NO_ATTACKS,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--epsilon",
            parser=number,
            metavar="E",
            help="Linf budget of these attacks; 3 % of the bounds' width by default.",
        ),
    ] = None,
    corpus: Annotated[
        str,
        typer.Option(
            "--corpus",
            metavar="FILE.npz",
            help="File that holds the corpus after each round; an existing one is resumed.",
        ),
    ] = "",
    faults: Annotated[
        str,
        typer.Option("--faults", help="Break weights, activations, both or none: one site at a time, then all."),
    ] = "weights",
    bounds: BoundsOption = "",
    limit: LimitOption = 0,
    store: StoreOption = DEFAULT_STORE,
    name: NameOption = "fuzzing",
    parent: ParentOption = "",
    seed: SeedOption = 0,
    html: HtmlOption = "",
    as_document: JsonOption = False,
) -> int:
    """Fuzz a model and inject faults into it; coverage, failures and drops of accuracy are stored as a run."""
    from ...armour.fuzz import Watched

    if faults not in _WHERE:
        raise WrongUse(f"--faults expects {', '.join(_WHERE)}, got {faults!r}")
    box = bounds_in(bounds)
    x, y = attacked_samples(data, limit)
    watched = Watched(load_model(model), bounds=box)
    mutators = _mutators(attacks, epsilon, x, box)
    check_parent(store, parent)
    outcomes: list[Outcome] = []
    is_interrupted = False
    try:
        _cover(
            outcomes,
            watched,
            x,
            y,
            rounds=rounds,
            mutants=mutants,
            mutators=mutators,
            path=Path(corpus) if corpus else None,
            seed=seed,
        )
        for where in {"both": ("weights", "activations"), "none": ()}.get(faults, (faults,)):
            outcomes += _inject_faults(watched, x, y, where, seed)
    except KeyboardInterrupt:
        is_interrupted = True
        if not outcomes:
            raise
    config: dict[str, Json] = {"seed": seed, "rounds": rounds, "mutants": mutants, "faults": faults}
    config |= {"mutators": [*mutators.corruptions, *(attack.name for attack in mutators.attacks)]}
    run = record(outcomes, store, name=name, parent=parent, config=config, framework=watched.model.framework)
    print_outcomes(outcomes, [_line(outcome) for outcome in outcomes], run, store, json=as_document, html=html)
    if is_interrupted:
        remark("interrupted; the outcomes above were complete" + (f", the corpus is in {corpus}" if corpus else ""))
    return INTERRUPTED if is_interrupted else 0


def _mutators(
    names: list[str], epsilon: float | None, x: "NDArray[np.generic]", bounds: tuple[float, float]
) -> "Mutators":
    """Return natural transforms where inputs are images, and the attacks that were named."""
    from ...armour.contract.attack_words import attacks_in
    from ...armour.corruptions import CORRUPTIONS
    from ...armour.fuzz import Mutators

    is_image = x.ndim >= 3 and x.dtype.kind == "f"
    made = tuple(attacks_in(names, "linf"))
    budget = 0.03 * (bounds[1] - bounds[0]) if epsilon is None else epsilon
    if not is_image and not made:
        raise WrongUse(
            f"natural transforms expect floating images (n, ..., height, width), got {x.dtype} {x.shape}; cast whole "
            f"numbers, or name attacks to mutate with: --attacks fgsm"
        )
    return Mutators(tuple(sorted(CORRUPTIONS)) if is_image else (), made, budget)


def _cover(
    outcomes: "list[Outcome]",
    watched: "Watched",
    x: Any,
    y: Any,
    *,
    rounds: int,
    mutants: int,
    mutators: "Mutators",
    path: Path | None,
    seed: int,
) -> None:
    """Add one outcome to the list, also when interrupted after a round."""
    from ...armour.fuzz import Corpus, NeuronCoverage
    from ...armour.fuzz import fuzz as run_fuzzing
    from ...armour.fuzz.fuzzer import coverage_outcome

    coverage = NeuronCoverage(watched, x)
    coverage.add(x)
    before, curve, last = coverage.report(), list[Any](), list[Any]()
    try:
        with progress_bar("fuzzing") as report_progress:

            def watch(found: Corpus, covered: "Coverage") -> None:
                shares = {name: getattr(covered, name) for name in type(covered).__slots__}
                point = {"round": found.rounds, "inputs": len(found.inputs), "failures": int(found.failed.sum())}
                curve.append(point | shares)
                last[:] = [found, covered]
                report_progress(found.rounds / max(rounds, 1), f"round {found.rounds} of {rounds}")

            last[:] = run_fuzzing(
                watched, coverage, x, y, rounds=rounds, mutants=mutants, path=path, seed=seed, mutators=mutators,
                watcher=watch,
            )  # fmt: skip
    finally:
        if last:
            outcomes.append(coverage_outcome(before, last[1], last[0], len(x), curve))


def _inject_faults(watched: "Watched", x: Any, y: Any, where: str, seed: int) -> "list[Outcome]":
    from ...armour.fuzz import inject_faults
    from ...armour.fuzz.fault_injection import fault_outcome

    found = [
        outcome
        for one_by_one in (True, False)
        for outcome in inject_faults(watched, x, y, where=where, one_by_one=one_by_one, seed=seed)  # type: ignore[arg-type]
    ]
    return [fault_outcome(fault, len(x)) for fault in found]


def _line(outcome: "Outcome") -> str:
    details: Any = outcome.details
    if details["kind"] == "fault":
        site = details["site"] or "all sites"
        return f"{outcome.attack} at {site}: accuracy {outcome.accuracy:.3f}, {details['drop']:.3f} lost"
    after = details["after"]
    return (
        f"{details['inputs']} inputs after {details['rounds']} rounds, {details['failures']} of them misread; "
        f"neurons {after['neuron']:.1%}, sections {after['k_sections']:.1%}, boundaries {after['boundary']:.1%}, "
        f"top {after['top_k']:.1%}"
    )
