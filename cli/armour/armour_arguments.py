"""Arguments that the armour commands share: the model, its data and bounds, and the budgets."""

import math
from collections.abc import Mapping, Sequence
from inspect import isfunction
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ..failures import WrongUse
from ..output import remark
from ..user_code import load_arrays, load_named, load_samples, made_model, needed_arguments

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from ...armour import WrappedModel

    Texts = tuple[dict[str, NDArray[np.generic]], NDArray[np.generic]]  # tokens by name, and their classes

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="'file.py:name' or 'package.module:name' of a model, of what armour.wrap returned, of a function that "
        "returns either, or of a predictor of one argument, the inputs.",
    ),
]
DataOption = Annotated[
    str,
    typer.Option("--data", metavar="FILE.npz", help="Arrays x and y: inputs within the bounds, and their classes."),
]
LimitOption = Annotated[int, typer.Option("--limit", min=0, metavar="N", help="Take the first N samples; 0 for all.")]
EpsilonsOption = Annotated[
    list[str],
    typer.Option(
        "--epsilons",
        "--epsilon",
        metavar="E,E,...",
        help="Budgets in the unit of x, separated by commas or repeated; fractions as 8/255, too. By default a few "
        "shares of the bounds' width, from 1 % on.",
    ),
]
BoundsOption = Annotated[
    str,
    typer.Option(
        "--bounds",
        metavar="LOW,HIGH",
        help="Smallest and largest value of an input; 0,1 by default. LOW:HIGH,LOW:HIGH,... for each channel or "
        "column, of which budgets are then shares.",
    ),
]
NameOption = Annotated[str, typer.Option("--name", help="Name of the stored run.")]
ParentOption = Annotated[str, typer.Option("--parent", metavar="RUN", help="The training that made the model.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0)]
HtmlOption = Annotated[
    str, typer.Option("--html", metavar="FILE", help="Also write a report to one HTML file that opens offline.")
]


class ArmourCommand(TyperCommand):
    """A command whose bounds may stand in two words, `--bounds 0 255`, as they had to at first."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # the context of click or of typer, by version
        """Join the two words of the bounds, then parse as usual."""
        at = args.index("--bounds") if "--bounds" in args else len(args)
        pair = args[at + 1 : at + 3]
        if len(pair) == 2 and all(_is_number(word) for word in pair):
            args = [*args[: at + 1], ",".join(pair), *args[at + 3 :]]
        return super().parse_args(ctx, args)


def number(word: str | float) -> float:
    """Return the number that a word writes, `0.1` or as a fraction `8/255`; a default is a number already.

    Raises:
        ValueError: It writes none, or one that is not finite.
    """
    numerator, slash, denominator = str(word).partition("/")
    try:
        found = float(numerator) / float(denominator) if slash else float(numerator)
    except ZeroDivisionError:
        raise ValueError(f"{word!r} divides by zero") from None
    if not math.isfinite(found):
        raise ValueError(f"{word!r} is not finite")
    return found


def _is_number(word: str) -> bool:
    try:
        number(word)
    except ValueError:
        return False
    return True


def numbers(words: Sequence[str], name: str) -> list[float]:
    """Parse the numbers of `0.1,8/255` and of repeated options.

    Raises:
        WrongUse: A word is no number.
    """
    found = []
    for word in split(words):
        try:
            found.append(number(word))
        except ValueError:
            raise WrongUse(f"{name} expects finite numbers, as in {name} 0.05,8/255; got {word!r}") from None
    return found


def split(words: Sequence[str]) -> list[str]:
    """Split options that may be repeated and may hold several values between commas."""
    return [part.strip() for word in words for part in word.split(",") if part.strip()]


def bounds_in(words: str) -> tuple[float, float]:
    """Return the bounds that `--bounds` names, 0 and 1 by default.

    Raises:
        WrongUse: They are not two numbers.
    """
    if not words:
        return 0.0, 1.0
    found = numbers([words], "--bounds")
    if len(found) != 2:
        raise WrongUse(f"--bounds expects two numbers, as in --bounds 0,255; got {words!r}")
    return found[0], found[1]


def _box_in(words: str) -> "tuple[ArrayLike, ArrayLike]":
    """Return the same, or lists of both ends where `LOW:HIGH` stands for each channel or column."""
    if ":" not in words:
        return bounds_in(words)
    pairs = [numbers(pair.split(":"), "--bounds") for pair in words.split(",")]
    if any(len(pair) != 2 for pair in pairs):
        raise WrongUse(f"--bounds expects LOW:HIGH for each channel or column, as in -2:2,0:1; got {words!r}")
    low, high = (list(ends) for ends in zip(*pairs, strict=True))
    return low, high


def attacked_model(
    target: str, bounds: str, texts: "Texts | None" = None, options: Mapping[str, Any] | None = None
) -> "WrappedModel":
    """Load the target and wrap it, unless it is wrapped already: then its own bounds hold.

    A function of one argument is taken for the model itself, as a predictor of inputs; one without makes the model.

    Args:
        bounds: As `--bounds` names them.
        texts: The samples where they are token ids, whose embeddings are attacked.
        options: More arguments of `armour.wrap`: task and features.

    Raises:
        WrongUse: `--bounds` contradicts those of a wrapped model, or it is to be wrapped with other options.
    """
    found = load_named(target, what="a model")
    is_predictor = isfunction(found) and len(needed_arguments(found)) == 1
    model = found if is_predictor else made_model(found, target)
    if texts is None:
        return wrapped(model, bounds, target, options)
    if options:
        raise WrongUse(f"texts are attacked at their embeddings, which take no {' or '.join(options)}")
    return _wrapped_for_texts(model, bounds, texts)


def wrapped(model: object, bounds: str, target: str, options: Mapping[str, Any] | None = None) -> "WrappedModel":
    """Do the same as `attacked_model` with a model that is loaded already."""
    from ...armour import WrappedModel, wrap

    named = _box_in(bounds)
    if not isinstance(model, WrappedModel):
        return wrap(model, bounds=named, **(options or {}))
    if options:
        raise WrongUse(f"{target} is wrapped already; say what {' and '.join(options)} are in armour.wrap(...)")
    if bounds and model.feature_bounds is not None:
        raise WrongUse(f"{target} is wrapped with bounds for each feature; leave --bounds out")
    if bounds and model.bounds != named:
        raise WrongUse(
            f"{target} is wrapped with the bounds {model.bounds}, --bounds says {named}; leave --bounds out, or change "
            f"armour.wrap(..., bounds=)"
        )
    return model


def _wrapped_for_texts(model: object, bounds: str, texts: "Texts") -> "WrappedModel":
    """Wrap a model of token ids; a class for each of them makes the task."""
    from ...armour import Tokens, WrappedModel, wrap_tokens

    if isinstance(model, WrappedModel):
        return wrapped(model, bounds, "the target")
    tokens, y = texts
    task = Tokens() if y.shape == tokens["input_ids"].shape else None
    return wrap_tokens(model, bounds=bounds_in(bounds) if bounds else None, task=task)


def width_of(model: "WrappedModel") -> float:
    """Return the distance of the bounds; 1 where each feature has its own, as budgets are shares there."""
    if model.feature_bounds is not None:
        return 1.0
    low, high = model.bounds
    return high - low


def attacked_samples(path: str, limit: int) -> "tuple[NDArray[np.generic], NDArray[np.generic]]":
    """Load inputs and classes from the file, the first `limit` of them where it is above 0, and say how many."""
    x, y = load_samples(path)
    if not 0 < limit < len(x):
        return x, y
    remark(f"the first {limit} of the {len(x)} samples in {path}")
    return x[:limit], y[:limit]


def attacked_texts(path: str, limit: int) -> "Texts | None":
    """Load token ids, what goes with them and classes, the first `limit` where it is above 0; None for other files.

    Raises:
        WrongUse: There are token ids without classes, or not as many of both.
    """
    arrays = load_arrays(path)
    if "input_ids" not in arrays or "x" in arrays:
        return None
    if "y" not in arrays or any(len(array) != len(arrays["y"]) for array in arrays.values()):
        raise WrongUse(
            f"{path!r} has input_ids and must hold as many classes y: one for each text, or for each token; it holds "
            f"{', '.join(f'{name} {array.shape}' for name, array in arrays.items())}"
        )
    count = limit if 0 < limit < len(arrays["y"]) else len(arrays["y"])
    if count < len(arrays["y"]):
        remark(f"the first {count} of the {len(arrays['y'])} samples in {path}")
    y = arrays.pop("y")
    return {name: array[:count] for name, array in arrays.items()}, y[:count]
