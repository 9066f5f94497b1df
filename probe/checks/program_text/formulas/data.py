"""What is done to the data of a training that their labels, or their axes, forbid."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from ..bindings import called, functions_in, names_given, parameters_of
from ..expressions import assignments, blocks_in, calls_in, is_difference, words_in
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

#: Calls that mirror pictures from left to right by their names, and classes that do so now and then.
_MIRRORS: Final = frozenset({"hflip", "fliplr", "random_flip_left_right", "flip_left_right", "horizontal_flip"})
_NOW_AND_THEN: Final = frozenset({"RandomHorizontalFlip", "HorizontalFlip", "random_flip_left_right"})
#: Names of pictures.
_PICTURES: Final = frozenset({"img", "image", "images", "imgs", "picture", "frame", "frames", "pixel", "pixels", "rgb"})
#: Functions that mirror along the axis x or y, and words of how far it reaches.
_ALONG: Final = {"hflip": "x", "fliplr": "x", "vflip": "y", "flipud": "y"}
_EXTENTS: Final = frozenset({"w", "h", "width", "height", "size", "iw", "ih"})
_SIDES: Final = ({"left"}, {"right"})
#: Dimensions that are the last one.
_LAST: Final = frozenset({"-1", "[-1]", "(-1,)", "[3]", "(3,)"})

#: Words of windows that lie before, and behind, the time of a forecast.
_PAST: Final = frozenset({"past", "history", "hist", "lookback", "context", "encoder"})
#: Words of pictures of low and of high resolution.
_LOW: Final = frozenset({"lr", "low", "lowres", "lq", "small"})
_HIGH: Final = frozenset({"hr", "high", "highres", "hq", "large"})
_FUTURE: Final = frozenset({"future", "fut", "upcoming"})
#: Names of places along an axis of a picture: `x`, `gy`, `cell_x`, `y0`.
_AXIS: Final = re.compile(r"^(?:[a-z]+_)?[a-z]?(?P<axis>[xy])\d?$")


def _mirrored_sides(tree: ast.AST) -> Iterator[Found]:
    """A picture that is mirrored shows on the left what its caption or class has on the right.

    Told where the program lists names of both sides, mirrors pictures by chance, and does nothing else then.
    """
    sides = next(filter(_names_sides, walked(tree)), None)
    if sides is None or any(map(_exchanges_sides, walked(tree))):
        return
    for node in walked(tree):
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
    for call in walked(change.value):
        if isinstance(call, ast.Call) and called(call) in _MIRRORS:
            return True
        if isinstance(call, ast.Call) and called(call) == "flip":
            given = [*call.args, *(one.value for one in call.keywords)]
            return any(ast.unparse(one) in _LAST for one in given)
    return False


def _mirrored_boxes(tree: ast.AST) -> Iterator[Found]:
    """A box is mirrored along the axis along which its picture is."""
    is_rows_first = any(calls_in(tree, "Conv2d")) and not any(calls_in(tree, "permute", "transpose", "movedim"))
    for function in functions_in(tree):
        is_one = is_rows_first and function.name == "__getitem__"
        for block in blocks_in(function):
            given = [one for one in block if isinstance(one, ast.Assign | ast.AnnAssign | ast.AugAssign)]
            calls = [call for one in given for call in calls_in(one, "flip", *_ALONG)]
            flips = [(call, axis) for call in calls if (axis := _flipped(call, is_one=is_one))]
            turned = {axis for one in block for part in walked(one) if (axis := _mirrored_axis(part))}
            for call, axis in flips:
                if turned and axis not in turned:
                    words = f"{ast.unparse(call)} mirrors {axis}, and {' and '.join(sorted(turned))} of a place with it"
                    yield "formula", words, call.lineno


def _flipped(call: ast.Call, *, is_one: bool) -> str:
    """Return the axis, x or y, along which a call mirrors pictures; empty where that is not known.

    Args:
        is_one: Whether this is one picture with its channels first.
    """
    if called(call) in _ALONG:
        return _ALONG[called(call)]
    given = [ast.unparse(one).strip("[](),") for one in (*call.args, *(one.value for one in call.keywords))]
    known = {"-1": "x", "-2": "y", **({"1": "y", "2": "x"} if is_one else {})}
    return next((known[one] for one in given if one in known), "") if words_in(call) & _PICTURES else ""


def _mirrored_axis(node: ast.AST) -> str:
    """Return the axis of a place that an expression `1 - x1` or `width - x1` mirrors; empty of others."""
    if not isinstance(node, ast.BinOp) or not is_difference(node) or not isinstance(node.right, ast.Name):
        return ""
    is_end = ast.unparse(node.left) in ("1", "1.0") or bool(words_in(node.left) & _EXTENTS)
    found = _AXIS.match(node.right.id)
    return found["axis"] if is_end and found is not None else ""


def _mixed_apart(tree: ast.AST) -> Iterator[Found]:
    """Inputs and labels are mixed with those of the same other samples (Zhang et al. 2018, arXiv:1710.09412)."""
    for function in functions_in(tree):
        orders = {name for name, value, _ in assignments(function) if _is_an_order(value)}
        taken = [one for one in walked(function) if isinstance(one, ast.Subscript)]
        ordered = [one for one in taken if _is_an_order(one.slice) or (_name(one.slice) in orders)]
        mixed = [one for one in ordered if any(_mixes(node, one) for node in walked(function))]
        for one in ordered:
            apart = [other for other in mixed if _is_of_another_order(one, other)]
            if apart and one not in mixed:
                words = (
                    f"{ast.unparse(one)} is in another order than {ast.unparse(apart[0])}, which inputs are mixed with"
                )
                yield "formula", words, one.lineno


def _is_an_order(value: ast.expr) -> bool:
    """Return whether an expression draws an order of samples."""
    return isinstance(value, ast.Call) and called(value) in ("randperm", "permutation")


def _is_of_another_order(one: ast.Subscript, other: ast.Subscript) -> bool:
    is_drawn_anew = _is_an_order(one.slice) or ast.unparse(one.slice) != ast.unparse(other.slice)
    return is_drawn_anew and ast.unparse(one.value) != ast.unparse(other.value)


def _mixes(node: ast.AST, part: ast.Subscript) -> bool:
    """Return whether a sum mixes `x[order]`, times something, with `x`, times something else."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return False
    sides = [node.left, node.right]
    inside = [any(one is part for one in walked(side)) for side in sides]
    if inside.count(True) != 1 or not all(isinstance(side, ast.BinOp) for side in sides):
        return False
    whole, plain = ast.unparse(part.value), sides[inside.index(False)]
    return any(isinstance(one, ast.expr) and ast.unparse(one) == whole for one in walked(plain))


def _turned_axes(tree: ast.AST) -> Iterator[Found]:
    """A map that convolutions make of pictures has its rows, y, before its columns, x, as the pictures have."""
    if next(calls_in(tree, "Conv2d"), None) is None:
        return
    written = [one for one in walked(tree) if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store)]
    orders = [(_order_of_axes(one), one) for one in written]
    rows_first = next((one for order, one in orders if order == "yx"), None)
    for order, one in orders:
        if order == "xy" and rows_first is not None:
            words = f"{ast.unparse(one)} is written with x before y, and {ast.unparse(rows_first)} with y before x"
            yield "formula", words, one.lineno


def _future_of_the_past(tree: ast.AST) -> Iterator[Found]:
    """What is known of the future is cut out of a series where the future begins, behind the past."""
    for function in functions_in(tree):
        cuts = [(words_of(name), name, _cut_of(value), line) for name, value, line in assignments(function)]
        begun = [(words, name, ast.unparse(cut.lower), line) for words, name, cut, line in cuts if cut and cut.lower]
        past = {begin for words, _, begin, _ in begun if words & _PAST}
        for words, name, begin, line in begun:
            if words & _FUTURE and not words & _PAST and begin in past:
                yield "formula", f"{name} begins where the past begins, at {begin}", line


def _repeated_rows(tree: ast.AST) -> Iterator[Found]:
    """The rows of a flattened table `(n, m)` are each row's number m times in a row: `repeat_interleave`.

    `torch.arange(n).repeat(m)` counts from 0 to n - 1 again and again, and goes with the transposed table.
    """
    for call in calls_in(tree, "repeat"):
        numbers = call.func.value if isinstance(call.func, ast.Attribute) else None
        if not isinstance(numbers, ast.Call) or ast.unparse(numbers.func) != "torch.arange" or len(numbers.args) != 1:
            continue
        (rows,), columns = numbers.args, call.args[0] if len(call.args) == 1 else None
        table = _table_of(rows, 0)
        if not table or columns is None or _table_of(columns, 1) != table:
            continue
        if any(_flattens(one, table) for one in calls_in(tree, "flatten", "reshape", "view", "ravel")):
            words = (
                f"{ast.unparse(call)} numbers the places of {table} column by column, and it is flattened row by row"
            )
            yield "formula", words, call.lineno


def _table_of(node: ast.expr, axis: int) -> str:
    """Return `T` of `T.shape[axis]`, `T.size(axis)`, and of `len(T)` for the first axis; empty of others."""
    text = ast.unparse(node)
    ends = (f".shape[{axis}]", f".size({axis})")
    if axis == 0 and text.startswith("len(") and isinstance(node, ast.Call):
        return ast.unparse(node.args[0]) if node.args else ""
    return next((text.removesuffix(end) for end in ends if text.endswith(end)), "")


def _flattens(call: ast.Call, table: str) -> bool:
    """Return whether a call makes one row of a table's rows."""
    is_whole = [ast.unparse(one) for one in call.args] == (["-1"] if called(call) in ("reshape", "view") else [])
    return is_whole and isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == table


def _unscaled_crop(tree: ast.AST) -> Iterator[Found]:
    """A crop of the picture of high resolution begins at as many times the place as it is larger."""
    for function in functions_in(tree):
        cuts = [(words_of(name), name, value, line) for name, value, line in assignments(function)]
        low = [(value, _extent_of(value)) for words, _, value, _ in cuts if words & _LOW]
        given = Counter([*parameters_of(function), *(name for name, _ in names_given(function.body))])
        for words, name, value, line in cuts:
            begin, size = _extent_of(value)
            others = [ast.unparse(one) for one, (start, extent) in low if start == begin and extent != size]
            if words & _HIGH and begin and others and given[begin] < 2:
                yield "formula", f"{name} = {ast.unparse(value)} begins where {others[0]} does, at another scale", line


def _extent_of(value: ast.expr) -> tuple[str, str]:
    """Return begin and size of the last axis of `picture[..., begin : begin + size]`; empty where it is none."""
    cut = _cut_of(value)
    end = cut.upper if cut is not None else None
    if cut is None or cut.lower is None or not isinstance(end, ast.BinOp) or not isinstance(end.op, ast.Add):
        return "", ""
    begin = ast.unparse(cut.lower)
    return (begin, ast.unparse(end.right)) if ast.unparse(end.left) == begin else ("", "")


def _cut_of(value: ast.expr) -> ast.Slice | None:
    """Return the last slice of `series[..., begin:end]`; None of others, and of one that begins at a fixed place."""
    indices = value.slice if isinstance(value, ast.Subscript) else None
    last = indices.elts[-1] if isinstance(indices, ast.Tuple) and indices.elts else indices
    is_moving = isinstance(last, ast.Slice) and not isinstance(last.lower, ast.Constant)
    return last if isinstance(last, ast.Slice) and is_moving else None


def _order_of_axes(node: ast.Subscript) -> str:
    """Return `xy` or `yx` as the last two indices are named, `grid[i, y0:y1, x0:x1]`; empty where they are not."""
    indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
    last = [one.lower if isinstance(one, ast.Slice) else one for one in indices[-2:]]
    found = [_AXIS.match(one.id) for one in last if isinstance(one, ast.Name)]
    letters = "".join(one["axis"] for one in found if one is not None)
    return letters if letters in ("xy", "yx") else ""


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _target_inside_the_context(tree: ast.AST) -> Iterator[Found]:
    """What is to be forecast begins where the past ends; what begins before is known already."""
    for node in walked(tree):
        parts = node.elts if isinstance(node, ast.Tuple) else []
        for past, future in pairwise(one for one in parts if isinstance(one, ast.Subscript)):
            known, wanted = _cut_of(past), _cut_of(future)
            if known is None or wanted is None or ast.dump(past.value) != ast.dump(future.value):
                continue
            begin, end = wanted.lower, wanted.upper
            if not isinstance(begin, ast.BinOp) or not isinstance(end, ast.BinOp) or known.upper is None:
                continue
            is_before = isinstance(begin.op, ast.Sub) and ast.dump(begin.left) == ast.dump(known.upper)
            is_window = isinstance(end.op, ast.Add) and ast.dump(end.left) == ast.dump(begin)
            if is_before and is_window:
                words = f"{ast.unparse(future)} begins {ast.unparse(begin.right)} before the end of what is known"
                yield "leak", words, future.lineno


def _target_in_the_history(tree: ast.AST) -> Iterator[Found]:
    """What comes next is asked of what came before it: `seq[:k]` for `seq[k]`, and not `seq[:k + 1]`."""
    for node in walked(tree):
        parts = node.elts if isinstance(node, ast.Tuple) else []
        items = [one for one in parts if isinstance(one, ast.Subscript) and isinstance(one.slice, ast.Name)]
        for item in items:
            series, at = ast.unparse(item.value), ast.unparse(item.slice)
            for other in (one for part in parts if part is not item for one in walked(part)):
                if not isinstance(other, ast.Subscript) or ast.unparse(other.value) != series:
                    continue
                end = other.slice.upper if isinstance(other.slice, ast.Slice) else None
                if end is not None and ast.unparse(end) == f"{at} + 1":
                    words = f"{ast.unparse(other)} holds {ast.unparse(item)}, which is to be told from it"
                    yield "leak", words, other.lineno


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _mirrored_sides,
    _mirrored_boxes,
    _mixed_apart,
    _turned_axes,
    _future_of_the_past,
    _unscaled_crop,
    _repeated_rows,
    _target_inside_the_context,
    _target_in_the_history,
)
