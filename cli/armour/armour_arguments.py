"""Arguments that the armour commands share: the model, its data and its budgets."""

from typing import Annotated

import typer

from ..failures import WrongUse

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", help="'file.py:name' or 'package.module:name' of a model, or of a function that returns one."
    ),
]
DataOption = Annotated[
    str,
    typer.Option("--data", metavar="FILE.npz", help="Arrays x and y: inputs within the bounds, and their classes."),
]
EpsilonsOption = Annotated[
    list[str],
    typer.Option("--epsilons", "--epsilon", metavar="E,E,...", help="Budgets, separated by commas or repeated."),
]
BoundsOption = Annotated[tuple[float, float], typer.Option("--bounds", help="Smallest and largest value of an input.")]
ParentOption = Annotated[str, typer.Option("--parent", metavar="RUN", help="The training that made the model.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0)]
HtmlOption = Annotated[
    str, typer.Option("--html", metavar="FILE", help="Also write a report to one HTML file that opens offline.")
]


def numbers(words: list[str], name: str) -> list[float]:
    """Parse the numbers of `0.1,0.2` and of repeated options.

    Raises:
        WrongUse: A word is no number.
    """
    found = []
    for word in split(words):
        try:
            found.append(float(word))
        except ValueError:
            raise WrongUse(f"{name} expects numbers, as in {name} 0.05,0.1; got {word!r}") from None
    return found


def split(words: list[str]) -> list[str]:
    """Split options that may be repeated and may hold several values between commas."""
    return [part.strip() for word in words for part in word.split(",") if part.strip()]
