"""`mindscope armour ...` attacks a trained model and stores what became of it."""

from typing import TYPE_CHECKING, Annotated, cast

import typer

from .failures import INTERRUPTED
from .options import DEFAULT_STORE, JsonOption, StoreOption
from .output import add_row, console, print_json, remark, table

if TYPE_CHECKING:
    from ..armour import Norm
    from ..armour.suites import Suite

application = typer.Typer(name="armour", help="Attack a model and measure what it withstands.", no_args_is_help=True)

_USUAL_EPSILONS = [0.01, 0.03, 0.1, 0.3]
_NO_ATTACKS: list[str] = []  # those of the suite

_Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="'file.py:name' or 'package.module:name' of a model, or of a function that returns one."
    ),
]
_Data = Annotated[
    str,
    typer.Option("--data", metavar="FILE.npz", help="Arrays x and y: inputs within the bounds, and their classes."),
]
_Epsilons = Annotated[list[float], typer.Option("--epsilon", help="A budget; may be given several times.")]
_Attacks = Annotated[
    list[str], typer.Option("--attack", metavar="NAME", help="Instead of a suite; may be given several times.")
]
_Bounds = Annotated[tuple[float, float], typer.Option("--bounds", help="Smallest and largest value of an input.")]


@application.command("attacks")
def attacks(as_document: JsonOption = False) -> int:
    """List the attacks, the norms they know and the papers they come from."""
    from ..armour import ATTACKS

    entries = [ATTACKS[name] for name in sorted(ATTACKS)]
    if as_document:
        facts = [(entry.name, entry.norms, _summary(entry.make), entry.reference) for entry in entries]
        print_json(
            {"attacks": [dict(zip(("name", "norms", "summary", "reference"), fact, strict=True)) for fact in facts]}
        )
        return 0
    listing = table("", "name", "norms", "what it does", "paper")
    for entry in entries:
        add_row(listing, entry.name, " ".join(entry.norms), _summary(entry.make), entry.reference)
    console().print(listing)
    return 0


@application.command("evaluate")
def evaluate(
    model: _Model,
    data: _Data,
    epsilon: _Epsilons = _USUAL_EPSILONS,
    attack: _Attacks = _NO_ATTACKS,
    suite: Annotated[
        str, typer.Option("--suite", metavar="NAME", help="quick, or standard: the parameter-free ensemble.")
    ] = "quick",
    norm: Annotated[str, typer.Option("--norm", help="linf, l2, l1 or l0.")] = "linf",
    bounds: _Bounds = (0.0, 1.0),
    store: StoreOption = DEFAULT_STORE,
    parent: Annotated[str, typer.Option("--parent", metavar="RUN", help="The training that made the model.")] = "",
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1)] = 256,
    as_document: JsonOption = False,
) -> int:
    """Measure how accurate a model stays under attack, and store the outcomes as a run."""
    from ..armour import evaluate as evaluation_of
    from ..armour import wrap
    from ..storage import open_store
    from .loading import load_model, load_samples

    wrapped = wrap(load_model(model), bounds=bounds)
    x, y = load_samples(data)
    with open_store(store) as opened:  # an unknown norm is told by evaluate itself
        found = evaluation_of(
            wrapped,
            x,
            y,
            epsilon,
            attacks=attack or None,
            suite=cast("Suite", suite),
            norm=cast("Norm", norm),
            store=opened,
            parent=parent or None,
            seed=seed,
            batch_size=batch_size,
        )
    if as_document:
        print_json(found)
    else:
        print(found.table())
        remark(f"stored as {found.run} in {store}")
    return INTERRUPTED if found.interrupted else 0


def _summary(attack: type) -> str:
    return (attack.__doc__ or "").partition("\n")[0]
