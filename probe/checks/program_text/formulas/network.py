"""Formulas inside networks: scores and weights of attention, messages along edges, twins, frequencies."""

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from ..bindings import Function, called, functions_in
from ..expressions import (
    DIGITS,
    assignments,
    blocks_in,
    calls_in,
    is_name,
    name_of,
    operand,
    words_in,
)
from ..known_values import values_of_names
from ..names import words_of
from ..operations import axis_of
from ..trees import walked
from .pattern import Found, Pattern

#: Words of the parts of a block, and of its norms.
_PARTS: Final = frozenset({"mha", "msa", "ff", "mixer", "ssm", "tokens", "channels"})
_BEGINNINGS: Final = ("attn", "attention", "mlp", "ffn", "feedforward")
_NORMS: Final = frozenset({"norm", "norm1", "norm2", "norm3", "ln", "ln1", "ln2", "ln3", "layernorm", "rms", "rmsnorm"})
#: How the names of modules begin that have no weights.
_WITHOUT_WEIGHTS: Final = (
    "ReLU", "GELU", "SiLU", "ELU", "CELU", "SELU", "Mish", "LeakyReLU", "Tanh", "Sigmoid", "Softmax", "Softplus",
    "Hard", "Dropout", "AlphaDropout", "Identity", "Flatten", "Unflatten", "MaxPool", "AvgPool", "Adaptive", "Upsample",
    "PixelShuffle", "DropPath", "Swish", "Activation",
)  # fmt: skip
#: Words of weights that attention gives.
_WEIGHTS: Final = frozenset({"att", "attn", "attention", "alpha", "a", "weights"})
_INVERSE: Final = ("irfft", "irfft2", "irfftn", "ifft", "ifft2", "ifftn")
#: Functions whose values are drawn.
_RANDOM: Final = (
    "randn", "rand", "normal", "normal_", "uniform", "uniform_", "randn_like", "rand_like", "xavier_uniform_",
    "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "trunc_normal_", "standard_normal",
)  # fmt: skip


def _attention_scale(tree: ast.AST) -> Iterator[Found]:
    """Scores of attention are divided by the root of their width (Vaswani et al. 2017, arXiv:1706.03762, eq. 1)."""
    for name, value, line in assignments(tree):
        for node in walked(value):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and _is_product(node.left):
                root = next(calls_in(node.right, "sqrt"), None)
                if root is not None and root is node.right and not words_of(name) & {"emb", "embed", "embedded"}:
                    yield "formula", f"{name} multiplies scores by {ast.unparse(root)} instead of dividing", line


def _missing_residual(tree: ast.AST) -> Iterator[Found]:
    """Each part of a block is added to what came in (He et al. 2016, arXiv:1512.03385; Xiong et al. 2020,
    arXiv:2002.04745, figure 1b, for blocks that normalise first)."""
    for function in walked(tree):
        if not isinstance(function, Function):
            continue
        added, alone = [], []
        for name, value, line in (*assignments(function), *_returned(function)):
            sides = [value.left, value.right] if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) else []
            if any(is_name(side, name) for side in sides) and any(_is_part(side, name) for side in sides):
                added.append(value)
            elif _is_part(value, name):
                alone.append((name, value, line))
        for name, value, line in alone if added else ():
            words = f"{name} = {ast.unparse(value)} drops what came in, which {ast.unparse(added[0])} keeps"
            yield "formula", words, line


def _returned(function: ast.AST) -> Iterator[tuple[str, ast.expr, int]]:
    """Yield sums that are returned, with each variable that is a term of them."""
    for node in walked(function):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.BinOp):
            sides = (node.value.left, node.value.right)
            yield from ((side.id, node.value, node.lineno) for side in sides if isinstance(side, ast.Name))


def _is_part(node: ast.expr, name: str) -> bool:
    """Return whether a value is attention or a network of a block, of what a norm makes of a variable."""
    is_named = isinstance(node, ast.Call) and any(
        word in _PARTS or word.startswith(_BEGINNINGS) for word in words_in(node.func)
    )
    if not is_named:
        return False
    calls = [one for one in walked(node) if isinstance(one, ast.Call) and one is not node]
    norms = [call for call in calls if words_in(call.func) & _NORMS]
    return any(len(call.args) == 1 and is_name(call.args[0], name) for call in norms)


def _repeated_module(tree: ast.AST) -> Iterator[Found]:
    """A list that is multiplied holds one module several times, and so one set of weights."""
    for call in calls_in(tree, "ModuleList", "Sequential"):
        for given in call.args:
            product = given.value if isinstance(given, ast.Starred) else given
            made = _repeated(product)
            if made is not None:
                words = f"{ast.unparse(product)} holds one {called(made)} several times, with the same weights"
                yield "shared", words, product.lineno


def _repeated(node: ast.expr) -> ast.Call | None:
    """Return the call that makes a module with weights, in a list of one that is multiplied; None for anything else."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return None
    for side in (node.left, node.right):
        made = side.elts[0] if isinstance(side, ast.List) and len(side.elts) == 1 else None
        is_class = isinstance(made, ast.Call) and called(made)[:1].isupper()
        if is_class and isinstance(made, ast.Call) and not called(made).startswith(_WITHOUT_WEIGHTS):
            return made
    return None


def _self_messages(tree: ast.AST) -> Iterator[Found]:
    """Messages that are taken from nodes go to their neighbours, and not back to the same nodes."""
    for function in walked(tree):
        known = {name: value for name, value, _ in assignments(function)} if isinstance(function, Function) else {}
        for call in calls_in(function, "index_add_", "index_add", "scatter_add_", "scatter_add") if known else ():
            if len(call.args) < 3:
                continue
            index, message = call.args[1], call.args[2]
            message = known.get(message.id, message) if isinstance(message, ast.Name) else message
            taken = [one for one in walked(message) if isinstance(one, ast.Subscript)]
            if isinstance(index, ast.Name) and taken and all(is_name(one.slice, index.id) for one in taken):
                words = f"what is taken from {index.id} is added to {index.id} again: {ast.unparse(call)}"
                yield "formula", words, call.lineno


def _random_pretrained(tree: ast.AST) -> Iterator[Found]:
    """`from_pretrained` freezes what it is given, unless it is told `freeze=False`; random values stay random."""
    known = {name: value for name, value, _ in assignments(tree)}
    for call in calls_in(tree, "from_pretrained"):
        owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if not owner.rpartition(".")[2].startswith("Embedding") or not call.args:
            continue
        if len(call.args) > 1 or any(one.arg in ("freeze", None) for one in call.keywords):
            continue
        given = call.args[0]
        given = known.get(given.id, given) if isinstance(given, ast.Name) else given
        is_thawed = any(isinstance(one, ast.Attribute) and one.attr.startswith("requires_grad") for one in walked(tree))
        if next(calls_in(given, *_RANDOM), None) is not None and not is_thawed:
            yield "frozen", f"{ast.unparse(call)} freezes random values; freeze=False trains them", call.lineno


def _twin_call(tree: ast.AST) -> Iterator[Found]:
    """Of two twins, the second statement asks the first one again; the layer of a class has its twin in that class."""
    classes = [one for one in walked(tree) if isinstance(one, ast.ClassDef)]
    seen = set[int]()
    for place in (*reversed(classes), tree):
        known = {one.attr for one in walked(place) if isinstance(one, ast.Attribute)}
        known |= {one.id for one in walked(place) if isinstance(one, ast.Name)}
        for block in blocks_in(place):
            for first, second in pairwise(block) if id(block) not in seen else ():
                if _is_assignment_of_call(first) and _is_assignment_of_call(second):
                    yield from _asked_again(first, second, known)
            seen.add(id(block))


def _asked_again(first: ast.stmt, second: ast.stmt, known: set[str]) -> Iterator[Found]:
    if not isinstance(first, ast.Assign) or not isinstance(second, ast.Assign):
        return
    one, two = ast.unparse(first.targets[0]), ast.unparse(second.targets[0])
    function = ast.unparse(second.value.func) if isinstance(second.value, ast.Call) else ""
    if one == two or one.translate(DIGITS) != two.translate(DIGITS) or ast.dump(first.value) != ast.dump(second.value):
        return
    old, new = _digit_of(one), _digit_of(two)
    last = function.rpartition(".")[2]
    twin = last.replace(old, new) if old else last
    is_kind = last[:1].isupper()  # `bn1 = BatchNorm1d(8)`, `bn2 = BatchNorm1d(8)`: the digit is its number of axes
    if old and new and twin != last and twin in known and not is_kind:
        yield "formula", f"{two} = {ast.unparse(second.value)} asks {last} again, and not {twin}", second.lineno


def _is_product(node: ast.expr) -> bool:
    is_written = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
    return is_written or (isinstance(node, ast.Call) and bool({"matmul", "bmm", "einsum"} & {_last(node)}))


def _last(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]


def _is_assignment_of_call(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1


def _digit_of(name: str) -> str:
    digits = [one for one in name if one.isdigit()]
    return digits[0] if len(digits) == 1 else ""


def _inverse_by_name(tree: ast.AST) -> Iterator[Found]:
    """What is called an inverse root of degrees has a negative power (arXiv:1609.02907, equation 2)."""
    for name, value, line in assignments(tree):
        text = ast.unparse(value)
        is_root = next(calls_in(value, "sqrt"), None) is not None or "pow(0.5)" in text or "** 0.5" in text
        inverts = "/" in text or "-" in text or words_in(value) & {"reciprocal", "rsqrt", "inv", "inverse", "pinv"}
        is_of_degrees = bool(words_in(value) & {"deg", "degree", "degrees", "d"})
        if {"inv", "sqrt"} <= words_of(name) and is_of_degrees and is_root and not inverts and not _divides(tree, name):
            yield "formula", f"{name} = {text} is the root, and not the inverse of it", line


def _divides(tree: ast.AST, name: str) -> bool:
    """Return whether anything is divided by a value."""
    below = [one.right for one in walked(tree) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Div)]
    return any(is_name(part, name) for one in below for part in walked(one))


def _additive_scores(tree: ast.AST) -> Iterator[Found]:
    """Additive scores have a tanh (Bahdanau et al. 2015, arXiv:1409.0473, appendix A.1.2).

    Without one the query adds the same to the scores of all places, and a softmax takes that away again.
    """
    single = {
        name_of(node.targets[0])
        for node in walked(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and called(node.value) == "Linear"
        and len(node.value.args) > 1
        and ast.unparse(node.value.args[1]) == "1"
    }
    for function in walked(tree):
        if not isinstance(function, Function) or next(calls_in(function, "softmax", "Softmax"), None) is None:
            continue
        for call in calls_in(function, *single):
            given = call.args[0] if call.args else None
            if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Add):
                words = f"{ast.unparse(call)} adds up, so the softmax takes the query's part away: a tanh is missing"
                yield "formula", words, call.lineno


def _zero_for_no_attention(tree: ast.AST) -> Iterator[Found]:
    """A score of zero is weighed by exp(0) = 1: what is left out of a softmax gets minus infinity (eq. 1)."""
    for block in blocks_in(tree):
        for first, second in pairwise(block):
            name, value = _kept(first)
            soft = [operand(one) for one in calls_in(second, "softmax")]
            if name and any(one is not None and is_name(one, name) for one in soft) and _fills_with_zero(value):
                words = f"{ast.unparse(first)} leaves exp(0) = 1 for what the softmax should leave out"
                yield "formula", words, first.lineno
    for call in calls_in(tree, "softmax"):
        given = operand(call)
        if _fills_with_zero(given):
            yield "formula", f"{ast.unparse(call)} gives exp(0) = 1 to what it should leave out", call.lineno


def _kept(node: ast.stmt) -> tuple[str, ast.expr | None]:
    """Return name and value of `name = value`."""
    is_plain = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    return (name_of(node.targets[0]), node.value) if is_plain and isinstance(node, ast.Assign) else ("", None)


def _fills_with_zero(node: ast.AST | None) -> bool:
    """Return whether scores are filled with zero: `scores.masked_fill(mask, 0.0)`."""
    given = (
        node.args[1] if isinstance(node, ast.Call) and called(node) == "masked_fill" and len(node.args) > 1 else None
    )
    return isinstance(given, ast.Constant) and given.value == 0


def _weights_over_another_axis(tree: ast.AST) -> Iterator[Found]:
    """The weights of a sum add up to one along the axis that is summed (Bahdanau et al. 2015, equation 6)."""
    for function in functions_in(tree):
        given = {name: [*map(_dropped, values)] for name, values in values_of_names(function).items()}
        weights = {name: axis_of(one) for name, (one, *more) in given.items() if called(one) == "softmax" and not more
                   if isinstance(one, ast.Call) and words_of(name) & _WEIGHTS}  # fmt: skip
        for node in walked(function) if weights else ():
            for name, axis, kept in _summed(node):
                if weights.get(name, "") and _is_kept(weights[name], axis, kept):
                    words = f"{ast.unparse(node)} sums with weights of a softmax along another axis, {weights[name]}"
                    yield "formula", words, getattr(node, "lineno", 0)


def _dropped(node: ast.expr) -> ast.expr:
    """Return the softmax of `dropout(softmax(x))`."""
    is_drop = isinstance(node, ast.Call) and "drop" in called(node) and bool(node.args)
    return node.args[0] if is_drop and isinstance(node, ast.Call) else node


def _summed(node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Yield the name of a factor, its axes, and those of them that the product keeps, `ij` and `i` of `a @ b`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield name_of(node.left), "ij", "i"
    elif isinstance(node, ast.Call) and called(node) == "einsum" and isinstance(node.args[0], ast.Constant):
        factors, _, kept = str(node.args[0].value).replace(" ", "").partition("->")
        for one, axes in zip(node.args[1:], factors.split(","), strict=False):
            if kept.isalpha() and axes.isalpha():
                yield name_of(one), axes, kept


def _is_kept(axis: str, axes: str, kept: str) -> bool:
    """Return whether an axis, a number from either end, is still there in a product of which others are summed."""
    number = int(axis) if axis.lstrip("-").isdigit() else None
    is_matrix = axes == "ij" and kept == "i"
    if number is None or (is_matrix and number not in (-2, 0)) or not -len(axes) <= number < len(axes):
        return False
    return axes[number] in kept and any(one not in kept for one in axes)


def _modes_of_another_end(tree: ast.AST) -> Iterator[Found]:
    """Modes that were multiplied go back to the frequencies that they came from (arXiv:2010.08895, equation 5)."""
    for function in functions_in(tree):
        is_inverse = next(calls_in(function, *_INVERSE), None) is not None
        for node in walked(function) if is_inverse else ():
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if not isinstance(node, ast.Assign) or not isinstance(target, ast.Subscript):
                continue
            written = _ends_of(target)
            read = [_ends_of(one) for one in walked(node.value) if isinstance(one, ast.Subscript)]
            is_alike = any(_without_signs(one) == _without_signs(written) for one in read)
            if written and is_alike and written not in read:
                yield "formula", f"{ast.unparse(node)} writes to other frequencies than it reads", node.lineno


def _ends_of(node: ast.Subscript) -> str:
    """Return the slices of an index, where one begins or ends at a number; empty of others."""
    has_end = any(isinstance(one, ast.Slice) and (one.lower or one.upper) for one in walked(node.slice))
    return ast.unparse(node.slice) if has_end else ""


def _without_signs(text: str) -> str:
    return text.replace("-", "").replace(":", "").replace(" ", "")


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _attention_scale,
    _repeated_module,
    _missing_residual,
    _self_messages,
    _random_pretrained,
    _twin_call,
    _inverse_by_name,
    _additive_scores,
    _zero_for_no_attention,
    _weights_over_another_axis,
    _modes_of_another_end,
)
