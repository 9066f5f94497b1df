"""What belongs together stays together: inputs and targets in one order, pictures and places, a batch and its seed."""

import ast
from collections.abc import Iterator
from typing import Final

from ..bindings import Function, called, functions_in, parameters_of
from ..expressions import assignments, blocks_in, calls_in, is_name, name_of, names_in, operand, words_in
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

#: Words of places in a picture, or of pictures beside it, that are mirrored with it.
_PLACES: Final = frozenset(
    {"box", "boxes", "bbox", "bboxes", "keypoints", "kps", "joints", "landmarks", "corners", "mask", "masks"}
)
_PICTURES: Final = frozenset({"img", "imgs", "image", "images", "picture", "pictures", "frame", "frames"})
_MIRRORS: Final = frozenset({"hflip", "fliplr", "horizontal_flip"})
_EDGES: Final = frozenset({"e", "edge", "edges", "ei"})
_STATISTICS: Final = frozenset({"mean", "std", "mu", "sigma", "loc", "scale", "mn", "mx", "min", "max"})
_FUTURES: Final = frozenset({"y", "target", "targets", "future", "futures", "label", "labels"})
_ENDS: Final = frozenset({"eos", "eot"})
#: Words of what brings rows back into the order that they had.
_BACK: Final = frozenset({"inverse", "unsort", "unsorted", "restore", "argsort", "inv", "original"})
_PADS: Final = frozenset({"pad", "padding"})
_INPUT_ROWS: Final = frozenset({"x", "xs", "src", "source", "inputs", "input", "tokens", "ids", "images", "features"})
_TARGET_ROWS: Final = frozenset({"y", "ys", "trg", "tgt", "target", "targets", "label", "labels", "out", "outputs"})
_ORDERING: Final = ("argsort", "sort", "randperm", "permutation", "sorted", "lexsort")
_OVERLAPS: Final = frozenset({"dice", "iou", "jaccard", "unet", "segmentation", "seg"})
_PAIRED: Final = {"x": "y", "xb": "yb", "img": "mask", "image": "mask", "images": "masks", "imgs": "masks"}


def _sorted_apart(tree: ast.AST) -> Iterator[Found]:
    """Both halves of pairs have one order: `sorted(a for a, _ in batch)` beside `[b for _, b in batch]` has two."""
    for function in functions_in(tree):
        halves = [(value, line) for _, value, line in assignments(function)]
        plain = {whole for value, _ in halves if (whole := _half_of(value))}
        for value, line in halves:
            given = value.args[0] if isinstance(value, ast.Call) and called(value) == "sorted" and value.args else None
            whole = "" if given is None else _half_of(given)
            if whole and whole in plain:
                yield "formula", f"{ast.unparse(value)} sorts one half of the pairs of {whole} without the other", line


def _half_of(node: ast.expr) -> str:
    """Return the name of the pairs of which a comprehension takes one half; empty of anything else."""
    if not isinstance(node, ast.ListComp | ast.GeneratorExp) or len(node.generators) != 1:
        return ""
    (part,) = node.generators
    is_half = isinstance(part.target, ast.Tuple) and isinstance(node.elt, ast.Name) and not part.ifs
    return name_of(part.iter) if is_half else ""


def _order_not_restored(tree: ast.AST) -> Iterator[Found]:
    """Rows that were sorted by length to be packed are brought back into their order."""
    for function in functions_in(tree):
        orders = set(_orders(function))
        stored = {id(one) for one in walked(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        for call in calls_in(function, "pack_padded_sequence"):
            inside = {id(one) for one in walked(call)}
            for order in orders & {one.id for one in walked(call) if isinstance(one, ast.Name)}:
                loads = {id(one) for one in walked(function) if is_name(one, order)} - stored
                if loads <= inside and not words_in(function) & _BACK:
                    words = f"{ast.unparse(call)} takes the rows in the order {order}, and nothing brings them back"
                    yield "formula", words, call.lineno


def _orders(function: Function) -> Iterator[str]:
    """Yield the names that are given the order of a sort."""
    for node in walked(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        target = node.targets[0]
        if called(node.value) == "sort" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            yield name_of(target.elts[1])
        elif called(node.value) == "argsort" and isinstance(target, ast.Name):
            yield target.id


def _mirrored_without_places(tree: ast.AST) -> Iterator[Found]:
    """What lies at places of a picture is mirrored with it."""
    for function in functions_in(tree):
        names = parameters_of(function)
        places = [name for name in names if words_of(name) & _PLACES]
        if not places or not any(words_of(name) & _PICTURES for name in names):
            continue
        left = [name for name in places if not _is_changed(function, name)]
        for call in walked(function) if len(left) == len(places) else ():
            if isinstance(call, ast.Call) and _mirrors_a_picture(call):
                yield "formula", f"{ast.unparse(call)} mirrors pictures, and {left[0]} stays as it is", call.lineno
                break


def _mirrors_a_picture(call: ast.Call) -> bool:
    if called(call) not in (*_MIRRORS, "flip") or not words_in(call) & _PICTURES:
        return False
    given = [ast.unparse(one).strip("[](),") for one in (*call.args, *(one.value for one in call.keywords))]
    return called(call) != "flip" or "-1" in given


def _is_changed(function: Function, name: str) -> bool:
    """Return whether a function gives a name, or a part of what it has, another value, or hands it to a call."""
    for node in walked(function):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(is_name(one, name) for target in targets for one in walked(target)):
                return True
            if node.value is not None and any(is_name(one, name) for one in walked(node.value)):
                return True
        elif isinstance(node, ast.Call) and any(is_name(one, name) for one in walked(node)):
            return True
    return not any(
        is_name(one, name) for node in walked(function) if isinstance(node, ast.Return) for one in walked(node)
    )


def _ignored_end(tree: ast.AST) -> Iterator[Found]:
    """The token that ends a sequence is learned; only padding is left out of the loss."""
    for call in (one for one in walked(tree) if isinstance(one, ast.Call)):
        ignored = next((one.value for one in call.keywords if one.arg == "ignore_index"), None)
        if words_of(name_of(ignored)) & _ENDS:
            words = f"{ast.unparse(call)} leaves the end of a sequence out of the loss: nothing learns when to stop"
            yield "formula", words, call.lineno


def _edges_in_reverse(tree: ast.AST) -> Iterator[Found]:
    """The other direction of edges `(2, n)` has both ends exchanged: `edges.flip(0)`."""
    for call in calls_in(tree, "cat", "hstack"):
        axis = next((ast.unparse(one.value) for one in call.keywords if one.arg in ("dim", "axis")), "")
        axis = axis or (ast.unparse(call.args[1]) if len(call.args) > 1 else "")
        names = {name for one in _joined(call) if (name := name_of(one)) and words_of(name) & _EDGES}
        for turned in calls_in(call, "flip"):
            owner = turned.func.value if isinstance(turned.func, ast.Attribute) else None
            along = [ast.unparse(one).strip("[](),") for one in turned.args]
            if axis in ("1", "-1") and along == [axis] and name_of(owner) in names:
                words = f"{ast.unparse(call)} adds the same edges in another order, and not their other direction"
                yield "formula", words, call.lineno


def _joined(call: ast.Call) -> list[ast.expr]:
    """Return what a call joins, `a, b` of `torch.cat([a, b])`."""
    return call.args[0].elts if call.args and isinstance(call.args[0], ast.List | ast.Tuple) else []


def _scaled_by_the_future(tree: ast.AST) -> Iterator[Found]:
    """The mean and the deviation that scale an input are those of the input, and not of what is to be forecast."""
    for node in walked(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple):
            continue
        names = [name_of(one) for one in node.targets[0].elts]
        if len(names) != 2 or not all(words_of(name) & _STATISTICS for name in names):
            continue
        for call in calls_in(node.value, "cat", "concatenate", "hstack"):
            parts = [name_of(one) for one in _joined(call)]
            if len(parts) == 2 and words_of(parts[1]) & _FUTURES and not words_of(parts[0]) & _FUTURES:
                words = f"{ast.unparse(node)} takes what is to be forecast into the scale of the input"
                yield "formula", words, node.lineno


def _end_is_padding(tree: ast.AST) -> Iterator[Found]:
    """The end of a sequence needs a number of its own where padding is left out of the loss."""
    numbers: dict[str, tuple[object, int]] = {}
    for name, value, line in assignments(tree):
        if isinstance(value, ast.Constant) and type(value.value) is int and name not in numbers:
            numbers[name] = value.value, line
    ignored = {
        name_of(one.value)
        for call in walked(tree)
        if isinstance(call, ast.Call)
        for one in call.keywords
        if one.arg == "ignore_index"
    }
    for name in (one for one in ignored if words_of(one) & _PADS and one in numbers):
        for other, (number, line) in numbers.items():
            if words_of(other) & _ENDS and number == numbers[name][0]:
                words = f"{other} is {number} as {name} is, which the loss ignores: nothing learns when to stop"
                yield "formula", words, line


def _ordered_apart(tree: ast.AST) -> Iterator[Found]:
    """Inputs that are put into another order take their targets with them."""
    for function in functions_in(tree):
        orders = {name for name, value, _ in assignments(function) if called(_whole(value)) in _ORDERING}
        orders |= set(_orders(function))
        for node in (one for one in walked(function) if isinstance(one, ast.Return) and orders):
            parts = node.value.elts if isinstance(node.value, ast.Tuple) else []
            turned = [one for one in parts if isinstance(one, ast.Subscript) and name_of(one.slice) in orders]
            inputs = [one for one in turned if words_of(name_of(one.value)) & _INPUT_ROWS]
            left = [one.id for one in parts if isinstance(one, ast.Name) and words_of(one.id) & _TARGET_ROWS]
            is_told = any(name_of(one) in orders for one in parts)
            if inputs and left and not is_told and not _is_taken_by(function, left[0], orders):
                words = f"{ast.unparse(node)} puts {ast.unparse(inputs[0].value)} into another order than {left[0]}"
                yield "formula", words, node.lineno


def _whole(value: ast.expr) -> ast.expr:
    """Return the call of `call(...)[0]` and of `call(...).indices`."""
    while isinstance(value, ast.Subscript | ast.Attribute):
        value = value.value
    return value


def _is_taken_by(function: Function, name: str, orders: set[str]) -> bool:
    """Return whether a name is given anything that an order has a part in."""
    given = [value for one, value, _ in assignments(function) if one == name]
    return any(orders & {name_of(one) for one in walked(value)} for value in given)


def _mirrored_without_map(tree: ast.AST) -> Iterator[Found]:
    """In a segmentation, what is `y` to a picture `x` is mirrored with it."""
    names = [one.name for one in walked(tree) if isinstance(one, Function | ast.ClassDef)]
    if not set[str]().union(*map(words_of, names)) & _OVERLAPS:
        return
    for block in blocks_in(tree):
        for statement in (one for one in block if isinstance(one, ast.If) and not one.orelse):
            for name, value, line in assignments(statement):
                other = _PAIRED.get(name, "")
                is_mirror = called(value) == "flip" and isinstance(value, ast.Call) and name_of(operand(value)) == name
                given = {each for each, _, _ in assignments(statement)}
                if is_mirror and other and other not in given and any(other in names_in(one) for one in block):
                    yield "formula", f"{name} = {ast.unparse(value)} mirrors pictures, and {other} stays as it is", line


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _sorted_apart,
    _order_not_restored,
    _mirrored_without_places,
    _ignored_end,
    _edges_in_reverse,
    _scaled_by_the_future,
    _end_is_padding,
    _ordered_apart,
    _mirrored_without_map,
)
