"""What is done to the data of a training that their labels forbid."""

import ast
from collections.abc import Iterator
from typing import Final

from ..bindings import called
from ..expressions import words_in
from ..names import words_of
from .pattern import Found, Pattern

#: Calls that mirror pictures from left to right by their names, and classes that do so now and then.
_MIRRORS: Final = frozenset({"hflip", "fliplr", "random_flip_left_right", "flip_left_right", "horizontal_flip"})
_NOW_AND_THEN: Final = frozenset({"RandomHorizontalFlip", "HorizontalFlip", "random_flip_left_right"})
#: Names of pictures.
_PICTURES: Final = frozenset({"img", "image", "images", "imgs", "picture", "frame", "frames", "pixel", "pixels", "rgb"})
_SIDES: Final = ({"left"}, {"right"})
#: Dimensions that are the last one.
_LAST: Final = frozenset({"-1", "[-1]", "(-1,)", "[3]", "(3,)"})


def _mirrored_sides(tree: ast.AST) -> Iterator[Found]:
    """A picture that is mirrored shows on the left what its caption or class has on the right.

    Told where the program lists names of both sides, mirrors pictures by chance, and does nothing else then.
    """
    sides = next(filter(_names_sides, ast.walk(tree)), None)
    if sides is None or any(map(_exchanges_sides, ast.walk(tree))):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) in _NOW_AND_THEN:
            yield "formula", _words(ast.unparse(node), sides), node.lineno
        elif isinstance(node, ast.If) and _is_by_chance(node.test) and len(node.body) == 1 and not node.orelse:
            change = node.body[0]
            if isinstance(change, ast.Assign) and len(change.targets) == 1 and _mirrors(change):
                yield "formula", _words(ast.unparse(change), sides), change.lineno


def _words(change: str, sides: ast.AST) -> str:
    return f"{change} mirrors pictures, and {ast.unparse(sides)} tells their sides apart"


def _names_sides(node: ast.AST) -> bool:
    """Return whether a literal lists names that differ in the side alone, such as left and right."""
    listed = node.keys if isinstance(node, ast.Dict) else node.elts if isinstance(node, ast.List | ast.Tuple) else []
    names = [words_of(one.value) for one in listed if isinstance(one, ast.Constant) and type(one.value) is str]
    left = [name - _SIDES[0] for name in names if name & _SIDES[0]]
    return any(name - _SIDES[1] in left for name in names if name & _SIDES[1])


def _exchanges_sides(node: ast.AST) -> bool:
    """Return whether the program gives one side the name of the other."""
    if isinstance(node, ast.Dict):
        pairs = [(words_in(key), words_in(value)) for key, value in zip(node.keys, node.values, strict=True)]
        return any(key & _SIDES[0] and value & _SIDES[1] for key, value in pairs)
    given = [words_in(one) for one in node.args] if isinstance(node, ast.Call) else []
    is_call = isinstance(node, ast.Call) and called(node) in ("replace", "sub")
    return is_call and bool(set().union(*given) & (_SIDES[0] | _SIDES[1]))


def _is_by_chance(test: ast.expr) -> bool:
    return bool(words_in(test) & {"rand", "random", "rng", "uniform", "bernoulli", "coin", "randint"})


def _mirrors(change: ast.Assign) -> bool:
    """Return whether a statement replaces a picture by its mirror image."""
    if not words_in(change.targets[0]) & _PICTURES:
        return False
    for call in ast.walk(change.value):
        if isinstance(call, ast.Call) and called(call) in _MIRRORS:
            return True
        if isinstance(call, ast.Call) and called(call) == "flip":
            given = [*call.args, *(one.value for one in call.keywords)]
            return any(ast.unparse(one) in _LAST for one in given)
    return False


#: Every pattern of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (_mirrored_sides,)
