"""`mindscope landscape RUN --loss FILE.py:NAME` computes the loss around a run's weights, or along its path."""

from typing import TYPE_CHECKING, Annotated

import typer

from .failures import WrongUse
from .output import as_json, console, print_json, remark
from .store_options import DEFAULT_STORE, JsonOption, RunArgument, StoreOption, open_existing

if TYPE_CHECKING:
    from ..insight.landscape import Plane, Surface, Weights

_Loss = Annotated[
    str,
    typer.Option(
        "--loss",
        metavar="FILE.py:NAME",
        help="A function of the weights by site that returns the loss on fixed data.",
    ),
]
_Along = Annotated[
    str, typer.Option("--along", metavar="random|path", help="Random directions, or the path of the training.")
]


def landscape(
    loss: _Loss,
    run: RunArgument = "latest",
    store: StoreOption = DEFAULT_STORE,
    along: _Along = "path",
    resolution: Annotated[int, typer.Option("--resolution", min=2, help="Points on each axis.")] = 21,
    extent: Annotated[float, typer.Option("--extent", help="How far random directions go.")] = 1.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random directions.")] = 0,
    as_document: JsonOption = False,
) -> int:
    """Compute the loss over a plane through the dumped weights of a run, and store it beside the run."""
    if along not in ("random", "path"):
        raise WrongUse(f"--along expects random or path, got {along!r}")
    from ..insight import landscape
    from ..insight.landscape import dumped_weights, write_surface
    from ..storage import tensor_files
    from .user_code import load_named

    measure = load_named(loss, what="a loss")
    if not callable(measure):
        raise WrongUse(f"--loss expects a function of the weights, got {type(measure).__name__}")
    with open_existing(store) as opened:
        known = opened.find_run(run)
        plane = _plane(dumped_weights(opened, known, tensor_files(opened, known)), along, seed, extent)
        found = landscape.surface(measure, plane, resolution=resolution)
        kept = write_surface(opened, found, parent=known.id)
    if as_document:
        print_json({"run": kept.id, "parent": known.id, "surface": as_json(found)})
    else:
        _print(found)
        remark(f"stored as {kept.id} in {opened.url}")
    return 0


def _plane(snapshots: "dict[int, Weights]", along: str, seed: int, extent: float) -> "Plane":
    from ..insight.landscape import along_path, through

    if along == "path":
        return along_path(snapshots)
    return through(snapshots[max(snapshots)], seed=seed, extent=extent)


def _print(found: "Surface") -> None:
    """Print the surface in digits: 0 the lowest tenth of the losses' range on a log scale, 9 the highest."""
    import math

    levels = [math.log(value) for row in found.losses for value in row if 0.0 < value < math.inf]
    low, span = min(levels, default=0.0), max(levels, default=0.0) - min(levels, default=0.0)
    out = console()
    for row in reversed(found.losses):
        marks = (_mark(value, low, span) for value in row)
        out.print(" ".join(marks), markup=False)
    x, y, least = found.lowest
    out.print(f"loss {found.center_loss:.6g} at the weights, lowest {least:.6g} at ({x:.3g}, {y:.3g})", markup=False)
    if found.path:
        shares = " and ".join(f"{share:.0%}" for share in found.explained)
        out.print(f"{len(found.path)} steps of the training; the axes show {shares} of its way", markup=False)


def _mark(value: float, low: float, span: float) -> str:
    import math

    if not 0.0 < value < math.inf:
        return "." if value <= 0.0 else "!"
    return str(min(9, int(10 * (math.log(value) - low) / span))) if span > 0.0 else "0"
