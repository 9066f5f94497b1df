"""`mindscope explain RUN --logits FILE.py:NAME --data FILE.npz` asks where a model looks, and stores the answer."""

from collections.abc import Callable
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
    typer.Option("--data", metavar="FILE.npz", help="Inputs x, classes y, and region where things are marked."),
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
    method: Annotated[list[str], typer.Option("--method", help="One of several; all that can be by default.")] = _ALL,
    samples: Annotated[int, typer.Option("--samples", min=1, help="How many of the inputs, from the first on.")] = 4,
    as_document: JsonOption = False,
) -> int:
    """Ask where a model looks, measure whether that can be believed, and store it beside the run."""
    from ..insight.saliency import write_explanations
    from .user_code import load_samples

    score = _function(logits, "logits")
    slope = _function(gradient, "a gradient") if gradient else None
    x, y = load_samples(data)
    regions = _regions(data)
    methods = _methods(method, has_gradient=slope is not None)
    found = [
        _explained(score, slope, x[at], int(y[at]), at, name, None if regions is None else regions[at])
        for at in range(min(samples, len(x)))
        for name in methods
    ]
    with open_existing(store) as opened:
        kept = write_explanations(opened, found, parent=opened.find_run(run).id)
    if as_document:
        print_json({"run": kept.id, "parent": kept.parent, "explanations": [_document(one) for one in found]})
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


def _methods(asked: list[str], *, has_gradient: bool) -> list[str]:
    from ..insight.saliency import METHODS, WITHOUT_GRADIENT
    from ..storage import nearest

    for name in asked:
        if name not in METHODS:
            raise WrongUse(f"no method {name!r}{nearest(name, METHODS)}; methods are {', '.join(METHODS)}")
    if not has_gradient and (needing := [name for name in asked if name not in WITHOUT_GRADIENT]):
        others = ", ".join(WITHOUT_GRADIENT)
        raise WrongUse(f"{', '.join(needing)} needs a gradient; name one with --gradient, or use {others}")
    return asked or list(METHODS if has_gradient else WITHOUT_GRADIENT)


def _regions(path: str) -> "NDArray[np.bool_] | None":
    import numpy as np

    with np.load(path, allow_pickle=False) as arrays:
        return arrays["region"].astype(bool) if "region" in arrays else None


def _explained(
    logits: Callable[..., Any],
    gradient: Callable[..., Any] | None,
    x: "NDArray[Any]",
    label: int,
    at: int,
    method: str,
    region: "NDArray[np.bool_] | None",
) -> "Explanation":
    import numpy as np

    from ..insight.saliency import explain as explain_one

    try:
        return explain_one(
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


def _document(one: "Explanation") -> dict[str, Any]:  # Any: numbers and words
    from dataclasses import asdict

    pointed = None if one.localisation is None else asdict(one.localisation)
    return {
        "sample": one.sample,
        "target": one.target,
        "method": one.method,
        "score": one.score,
        "faithfulness": one.faithfulness,
        "deletion_area": one.deletion.area,
        "insertion_area": one.insertion.area,
        "stability": asdict(one.stability),
        "localisation": pointed,
    }


def _print(found: "list[Explanation]") -> None:
    listing = table("", "sample", "explained", "method", "faithfulness", "deletion", "insertion", "moves by", "hit")
    for one in found:
        numbers = (one.faithfulness, one.deletion.area, one.insertion.area, one.stability.largest)
        hit = "" if one.localisation is None else "yes" if one.localisation.is_hit else "no"
        add_row(listing, one.sample, one.target, one.method, *(f"{value:.3g}" for value in numbers), hit)
    console().print(listing)
