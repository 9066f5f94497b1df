"""`mindscope explain RUN --logits FILE.py:NAME --data FILE.npz` computes saliency maps of a model and stores them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .failures import WrongUse
from .output import add_row, console, print_json, remark, table
from .store_options import DEFAULT_STORE, JsonOption, RunArgument, StoreOption, open_existing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..insight.saliency import Explanation

_ALL: list[str] = []
_Logits = Annotated[
    str,
    typer.Option("--logits", metavar="FILE.py:NAME", help="A function of inputs (n, ...) that returns (n, classes)."),
]
_Data = Annotated[
    str,
    typer.Option("--data", metavar="FILE.npz", help="Inputs x, classes y, and optionally region, the marked pixels."),
]
_Gradient = Annotated[
    str,
    typer.Option(
        "--gradient",
        metavar="FILE.py:NAME",
        help="A function of inputs and a class that returns the gradient of that class's logit at each input.",
    ),
]


def explain(
    logits: _Logits,
    data: _Data,
    run: RunArgument = "latest",
    store: StoreOption = DEFAULT_STORE,
    gradient: _Gradient = "",
    method: Annotated[list[str], typer.Option("--method", help="May be repeated; by default all that apply.")] = _ALL,
    samples: Annotated[int, typer.Option("--samples", min=1, help="How many inputs, from the first on.")] = 4,
    as_document: JsonOption = False,
) -> int:
    """Compute saliency maps of a model, measure their faithfulness, and store them beside the run."""
    from ..insight.saliency import write_explanations
    from .user_code import load_samples

    score = _function(logits, "logits")
    slope = _function(gradient, "a gradient") if gradient else None
    x, y = load_samples(data)
    regions = _regions(data, x.shape)
    methods = _methods(method, has_gradient=slope is not None)
    found = [
        _explained(
            score, slope, (x[at], int(y[at])), at=at, method=name, region=None if regions is None else regions[at]
        )
        for at in range(min(samples, len(x)))
        for name in methods
    ]
    with open_existing(store) as opened:
        kept = write_explanations(opened, found, parent=opened.find_run(run).id)
    if as_document:
        print_json(
            {"run": kept.id, "parent": kept.parent, "explanations": [_document(explanation) for explanation in found]}
        )
    else:
        _print(found)
        remark(f"stored as {kept.id} in {opened.url}")
    return 0


def _function(reference: str, what: str) -> Callable[..., Any]:  # Any: arrays of whatever float the model takes
    from .user_code import load_named

    found = load_named(reference, what=what)
    if not callable(found):
        raise WrongUse(f"{reference!r} must be a function, got {type(found).__name__}")
    return found


def _methods(wanted: list[str], *, has_gradient: bool) -> list[str]:
    from ..insight.saliency import METHODS, WITHOUT_GRADIENT
    from ..storage import nearest

    for name in wanted:
        if name not in METHODS:
            raise WrongUse(f"no method {name!r}{nearest(name, METHODS)}; methods are {', '.join(METHODS)}")
    if not has_gradient and (needing := [name for name in wanted if name not in WITHOUT_GRADIENT]):
        others = ", ".join(WITHOUT_GRADIENT)
        raise WrongUse(f"{', '.join(needing)} needs a gradient; name one with --gradient, or use {others}")
    return wanted or list(METHODS if has_gradient else WITHOUT_GRADIENT)


def _regions(path: str, shape: tuple[int, ...]) -> "NDArray[np.bool_] | None":
    from ..storage.npz_files import read_npz

    region = read_npz(Path(path)).get("region")
    if region is None:
        return None
    if region.dtype.kind not in "biuf" or region.shape[:1] != shape[:1]:
        raise WrongUse(
            f"{path!r} must hold a region of truth values for each of its {shape[0]} inputs, got "
            f"{region.dtype}{region.shape}"
        )
    return region.astype(bool)


def _explained(
    logits: Callable[..., Any],
    gradient: Callable[..., Any] | None,
    sample: "tuple[NDArray[Any], int]",
    *,
    at: int,
    method: str,
    region: "NDArray[np.bool_] | None",
) -> "Explanation":
    import numpy as np

    from ..insight.saliency import explain as explain_sample

    x, label = sample
    try:
        return explain_sample(
            lambda inputs: np.asarray(logits(inputs.astype(x.dtype)))[:, label],
            x,
            method=method,
            gradient=None if gradient is None else lambda inputs: gradient(inputs.astype(x.dtype), label),
            sample=f"{at}",
            target=f"class {label}",
            region=region,
        )
    except (ValueError, IndexError) as error:
        raise WrongUse(f"sample {at} cannot be explained by {method}: {error}") from error


def _document(explanation: "Explanation") -> dict[str, Any]:  # Any: numbers and words
    from dataclasses import asdict

    pointed = None if explanation.localisation is None else asdict(explanation.localisation)
    return {
        "sample": explanation.sample,
        "target": explanation.target,
        "method": explanation.method,
        "score": explanation.score,
        "faithfulness": explanation.faithfulness,
        "deletion_area": explanation.deletion.area,
        "insertion_area": explanation.insertion.area,
        "stability": asdict(explanation.stability),
        "localisation": pointed,
    }


def _print(found: "list[Explanation]") -> None:
    columns = ("sample", "explained", "method", "faithfulness", "deletion", "insertion", "moves by", "hit")
    listing = table("", *columns)
    for explanation in found:
        areas = explanation.deletion.area, explanation.insertion.area
        numbers = [f"{value:.3g}" for value in (explanation.faithfulness, *areas, explanation.stability.largest)]
        hit = "" if explanation.localisation is None else "yes" if explanation.localisation.is_hit else "no"
        add_row(listing, explanation.sample, explanation.target, explanation.method, *numbers, hit)
    console().print(listing)
