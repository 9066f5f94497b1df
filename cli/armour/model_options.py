"""Options that say what a model's outputs mean and which inputs exist: its task, and rules for features."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..failures import WrongUse
from .armour_arguments import number, split

if TYPE_CHECKING:
    from ...armour import Features
    from ...armour.model.task import Task

TaskOption = Annotated[
    str,
    typer.Option(
        "--task",
        metavar="NAME[:OPTION=VALUE,...]",
        help="What the outputs are where they are not one class for each input: multi-label:wrong=1, "
        "regression:tolerance=5, or segmentation:kept=0.5,ignore=255.",
    ),
]
FrozenOption = Annotated[
    list[str],
    typer.Option(
        "--frozen", metavar="N,N-N,...", help="Positions in a flattened input, from 0, that no attack may change."
    ),
]
IntegerOption = Annotated[
    list[str], typer.Option("--integer", metavar="N,N-N,...", help="Positions that hold whole numbers.")
]
OneHotOption = Annotated[
    list[str],
    typer.Option(
        "--one-hot", metavar="N,N-N,...", help="Positions that together hold one category; once for each of them."
    ),
]


@dataclass(frozen=True, slots=True)
class ModelWords:
    """What the command line says of a model, as it was written."""

    task: str = ""
    frozen: Sequence[str] = ()
    integer: Sequence[str] = ()
    one_hot: Sequence[str] = ()

    def wrapping(self) -> dict[str, Any]:
        """Return the arguments that `armour.wrap` takes for task and features; empty without any.

        Raises:
            WrongUse: A task, an option or a position is not one.
        """
        task, features = task_in(self.task), self._features()
        named = {"task": task, "features": features}
        return {name: value for name, value in named.items() if value is not None}

    def _features(self) -> "Features | None":
        from ...armour import Features

        frozen, integer = _positions(self.frozen, "--frozen"), _positions(self.integer, "--integer")
        groups = tuple(_positions([word], "--one-hot") for word in self.one_hot)
        return Features(frozen, integer, groups) if frozen or integer or groups else None


def task_in(word: str) -> "Task | None":
    """Return the task that `regression:tolerance=5` names, None where there is no word.

    Raises:
        WrongUse: There is no such task or option, or a value is not a number.
    """
    from ...armour import MultiLabel, Regression, Segmentation
    from ...storage import nearest

    if not word:
        return None
    name, _, pairs = (part.strip() for part in word.partition(":"))
    known: dict[str, Any] = {"multi-label": MultiLabel, "regression": Regression, "segmentation": Segmentation}
    if name not in known:
        raise WrongUse(f"--task expects {', '.join(known)}; got {name!r}{nearest(name, known)}")
    types = {field.name: field.type for field in fields(known[name])}
    found: dict[str, float] = {}
    for pair in split([pairs]):
        option, _, text = (part.strip() for part in pair.partition("="))
        if option not in types:
            raise WrongUse(f"--task {name} has no option {option!r}; its options are {', '.join(types)}")
        found[option] = _value(name, option, text, is_whole=types[option] in (int, "int"))
    if name == "regression" and not found:
        raise WrongUse("--task regression expects the largest error that is no harm, as in regression:tolerance=5")
    task: Task = known[name](**found)
    return task


def _value(task: str, option: str, text: str, *, is_whole: bool) -> float:
    try:
        return int(text) if is_whole else number(text)
    except ValueError:
        kind = "a whole number" if is_whole else "a number"
        raise WrongUse(f"--task {task} expects {option} to be {kind}, got {text!r}") from None


def _positions(words: Sequence[str], name: str) -> tuple[int, ...]:
    """Return the positions that `0,3-5` names."""
    found: list[int] = []
    for word in split(words):
        first, dash, last = word.partition("-")
        try:
            found += range(int(first), int(last if dash else first) + 1)
        except ValueError:
            raise WrongUse(f"{name} expects positions from 0, as in {name} 0,3-5; got {word!r}") from None
    return tuple(found)
