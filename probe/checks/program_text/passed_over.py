"""What is made for use and passed over: a changed copy, a replayed action, the part of the data for training."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from .bindings import Binding, Function, called, goes_backward
from .expressions import is_name, names_in
from .names import EVALUATION, TRAINING, acts_in_transition, words_of
from .trees import walked

#: Words of what was changed, so that it takes the place of its original.
_CHANGED: Final = frozenset(
    {
        "in", "aug", "augmented", "noisy", "noised", "norm", "normalized", "normed", "scaled", "dropped", "shuffled",
        "shifted", "clipped", "padded", "perturbed", "adv", "cond", "corrupted", "smoothed", "smooth", "mixed",
        "centered", "centred", "standardized", "hot", "sorted", "permuted", "soft", "fixed", "clean", "pre", "rotated",
    }
)  # fmt: skip


def changed_copies(name: str, body: Sequence[ast.stmt]) -> Iterator[int]:
    """Yield the line of a changed copy, `y_in = where(drop, null, y)`, in whose place the original is read behind it.

    Args:
        name: It is read by nothing.
        body: The scope in which it is made.
    """
    if name.startswith("_"):
        return
    nodes = [part for statement in body for part in walked(statement)]
    made = [one for one in nodes if isinstance(one, ast.Assign) and is_name(one.targets[0], name)]
    for one in made if len(made) == 1 and isinstance(made[0].value, ast.Call | ast.BinOp) else ():
        originals = {each for each in names_in(one.value) if words_of(each) < words_of(name)}
        is_changed = bool(words_of(name).union(*map(words_of, originals)) & _CHANGED) and bool(originals)
        inside = {id(part) for part in walked(one)}
        read = {
            each.id
            for each in nodes
            if isinstance(each, ast.Name) and each.lineno >= one.lineno and id(each) not in inside
        }
        if is_changed and originals & read:
            yield one.lineno


def replayed_actions(name: str, function: Function, bindings: Iterable[Binding]) -> Iterator[int]:
    """Yield the line of the action of replayed transitions, where values are learned towards the best next one.

    Args:
        name: It is read by nothing in the function.
    """
    is_bootstrap = any(called(one) in ("max", "amax") for one in walked(function) if isinstance(one, ast.Call))
    if not is_bootstrap or not goes_backward(function):
        return
    lines = (one.line for one in bindings if one.is_part and acts_in_transition(name, one.beside))
    yield from [*lines][:1]


def parts_for_training(name: str, scope: ast.AST, made: Mapping[str, Sequence[Binding]]) -> Iterator[int]:
    """Yield the line of the part of the data for training, beside that for a test, in a scope that trains.

    Args:
        name: It is read by nothing.
        made: What gives each name of the scope its values.
    """
    if words_of(name).isdisjoint(TRAINING) or not goes_backward(scope):
        return
    beside = {one.line for other, them in made.items() if words_of(other) & EVALUATION for one in them}
    yield from [one.line for one in made.get(name, ()) if one.line in beside][:1]
