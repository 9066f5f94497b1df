"""Derivatives that are not what they are named after, and solvers of differential equations whose time stands."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from ..bindings import LOOPS, Function, called, functions_in, names_given, pairs_of
from ..expressions import assignments, calls_in, is_name, name_of, words_in
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

#: A name that says what is differentiated by what: `u_x`, `du_dx`, `d2u_dx2`, `u_xx`, `dudt`.
_NAMED: Final = re.compile(r"^(?:d2?)?(?P<of>[a-z]\w*?)_?(?:d|_)(?P<by>[a-z])(?:2|(?P=by))?$")

#: A name of a second derivative: `u_xx`.
_TWICE: Final = re.compile(r"^(?:(?P<of>[a-z]+)_(?P<by>[a-z])(?P=by))$")
_GRADIENTS: Final = ("grad", "gradient", "derivative", "gradients")
_REVERSALS: Final = frozenset({"reverse", "reversal", "reversed", "rev", "grl", "revgrad"})
#: Calls by which a layer reverses what it is given, and no gradient.
_TURNS: Final = ("flip", "flipud", "fliplr", "roll", "index_select", "gather")
#: The derivative of an energy, `dHdq` or `dH_dp`.
_OF_ENERGY: Final = re.compile(r"^d?(?:h|ham|energy)_?d_?(?P<by>[qpx])$")
_ROLLOUTS: Final = frozenset({"rollout", "rollouts", "unroll", "simulate", "simulation"})
_TIMES: Final = frozenset({"t", "time", "t0", "tau"})
_COORDINATES: Final = frozenset("xyzt")


def _other_variable(tree: ast.AST) -> Iterator[Found]:
    """`u_x` is the derivative by x, as everybody writes it (Raissi et al. 2019, "Physics-informed neural networks")."""
    names = {
        one.arg if isinstance(one, ast.arg) else one.id for one in walked(tree) if isinstance(one, ast.Name | ast.arg)
    }
    for node in walked(tree):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        for target, value in pairs_of(node.targets[0], node.value):
            yield from _misnamed(target, value, node.lineno, names | _COORDINATES)


def _first_for_second(tree: ast.AST) -> Iterator[Found]:
    """`u_xx` is a derivative of `u_x`; that of `u` itself is the first one."""
    for name, value, line in assignments(tree):
        found = _TWICE.match(name)
        call = value.value if isinstance(value, ast.Subscript) else value
        if found is None or not isinstance(call, ast.Call) or called(call) not in _GRADIENTS or len(call.args) < 2:
            continue
        if is_name(call.args[0], found["of"]) and is_name(call.args[1], found["by"]):
            yield "formula", f"{name} is the first derivative of {found['of']}: {ast.unparse(call)}", line


def _unreversed(tree: ast.AST) -> Iterator[Found]:
    """A layer that reverses gradients turns their sign (Ganin et al. 2016, arXiv:1505.07818, equation 14)."""
    applied = [call for call in calls_in(tree, "apply") if any(isinstance(part, ast.USub) for part in walked(call))]
    turned = {ast.unparse(call.func).removesuffix(".apply") for call in applied}
    for node in walked(tree):
        is_reversal = isinstance(node, ast.ClassDef) and bool(words_of(node.name) & _REVERSALS)
        if not isinstance(node, ast.ClassDef) or not is_reversal or node.name in turned:
            continue
        passes = {one.name: one for one in node.body if isinstance(one, Function)}
        backward, forward = passes.get("backward"), passes.get("forward")
        if backward is None or forward is None or any(calls_in(forward, *_TURNS)):
            continue
        has_sign = any(isinstance(one, ast.USub | ast.Sub) for one in walked(backward))
        if not has_sign and not any(calls_in(backward, "neg", "neg_", "negative")):
            returned = [one for one in walked(backward) if isinstance(one, ast.Return) and one.value is not None]
            if returned:
                words = f"{node.name} passes gradients on with their sign: {ast.unparse(returned[-1])}"
                yield "sign", words, returned[-1].lineno


def _standing_time(tree: ast.AST) -> Iterator[Found]:
    """A solver moves its time on with its state (Butcher 2016, "Numerical methods for differential equations").

    Told of a time that begins at zero before a loop and is given to every step of it as it was.
    """
    for function in functions_in(tree):
        begun = {name: value for name, value, _ in assignments(function) if name in _TIMES and _is_zero(value)}
        given = Counter(name for name, _ in names_given(function.body))
        for loop in walked(function):
            for line, call in _steps_of(loop):
                names = [one.id for one in call.args if isinstance(one, ast.Name)]
                still = [name for name in names if name in begun and given[name] == 1]
                if still:
                    words = (
                        f"every step of the loop gets {still[0]} = {ast.unparse(begun[still[0]])}: {ast.unparse(call)}"
                    )
                    yield "formula", words, line


def _steps_of(loop: ast.AST) -> Iterator[tuple[int, ast.Call]]:
    """Yield the calls by which a loop gives a state its next value: `y = step(f, t, y, h)`."""
    for node in loop.body if isinstance(loop, LOOPS) else ():
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or len(node.targets) != 1:
            continue
        target = node.targets[0]
        if isinstance(target, ast.Name) and any(is_name(one, target.id) for one in node.value.args):
            yield node.lineno, node.value


def _is_zero(value: ast.expr) -> bool:
    """Return whether an expression is zero, as a number or as a tensor."""
    is_call = isinstance(value, ast.Call) and called(value) in ("tensor", "as_tensor", "full", "array")
    inside = value.args[-1] if is_call and isinstance(value, ast.Call) and value.args else value
    return isinstance(inside, ast.Constant) and inside.value == 0 and not isinstance(inside.value, bool)


def _misnamed(target: ast.expr, value: ast.expr, line: int, known: set[str]) -> Iterator[Found]:
    """Yield a derivative by another variable than its name says; `du_g`, where nothing is called `g`, is a gradient."""
    call, at = (value.value, _number(value.slice)) if isinstance(value, ast.Subscript) else (value, None)
    if not isinstance(call, ast.Call) or called(call) not in _GRADIENTS:
        return
    if len(call.args) < 2:
        return
    given = call.args[1]
    variables = [_name(one) for one in given.elts] if isinstance(given, ast.Tuple | ast.List) else [_name(given)]
    names = [_name(one) for one in target.elts] if isinstance(target, ast.Tuple | ast.List) else [_name(target)]
    if at is not None:
        variables = variables[at : at + 1]
    if len(names) != len(variables):
        return
    by = [_by(name) for name in names]
    for name, said, variable in zip(names, by, variables, strict=True):
        is_other = said in known and bool(variable) and said != variable and len(variable) == 1
        is_of_this = len(variables) == 1 and _name(call.args[0]).startswith(_of(name))
        if is_other and (said in variables or is_of_this):
            yield "formula", f"{name} is the derivative by {variable}: {ast.unparse(call)}", line
            return


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _by(name: str) -> str:
    found = _NAMED.match(name)
    return found["by"] if found else ""


def _of(name: str) -> str:
    found = _NAMED.match(name)
    return found["of"] if found else ""


def _number(node: ast.expr) -> int | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None


def _turned_flow(tree: ast.AST) -> Iterator[Found]:
    """Places change by dH/dp, and momenta by -dH/dq (Greydanus et al. 2019, arXiv:1906.01563, equation 2)."""
    for call in calls_in(tree, "cat", "stack", "concat", "concatenate", "hstack"):
        parts = call.args[0].elts if call.args and isinstance(call.args[0], ast.List | ast.Tuple) else []
        sides = [(_by_what(part), is_minus) for part, is_minus in map(_sign, parts)]
        if len(sides) == 2 and {by for by, _ in sides} == {"q", "p"} and sides != [("p", False), ("q", True)]:
            words = f"{ast.unparse(call)} is no flow of a Hamiltonian: that is (dH/dp, -dH/dq)"
            yield "formula", words, call.lineno


def _sign(node: ast.expr) -> tuple[ast.expr, bool]:
    is_minus = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    return (node.operand, True) if is_minus and isinstance(node, ast.UnaryOp) else (node, False)


def _by_what(node: ast.expr) -> str:
    """Return `q` or `p` for the derivative of an energy by it, as its name tells; empty of others."""
    found = _OF_ENERGY.match(name_of(node).lower())
    return "" if found is None else "q" if found["by"] in "qx" else "p"


def _unsquared_information(tree: ast.AST) -> Iterator[Found]:
    """The information about a parameter is its squared gradient (Kirkpatrick et al. 2017, arXiv:1612.00796)."""
    for node in walked(tree):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            target, value = node.target, node.value
            base = target.value if isinstance(target, ast.Subscript) else target
            is_squared = bool({"pow", "square", "abs"} & words_in(value)) or "**" in ast.unparse(value)
            gradients = [one for one in walked(value) if isinstance(one, ast.Attribute) and one.attr == "grad"]
            is_form = isinstance(value, ast.Call) and called(value) == "sum"  # `(p.grad * direction).sum()`: one number
            if "fisher" in words_of(name_of(base)) and len(gradients) == 1 and not (is_squared or is_form):
                yield "formula", f"{ast.unparse(node)} adds gradients, and not their squares", node.lineno


def _unrolled_from_the_truth(tree: ast.AST) -> Iterator[Found]:
    """A rollout goes on from its own last state; from the true one it shows the error of single steps."""
    for function in functions_in(tree):
        if not words_of(function.name) & _ROLLOUTS:
            continue
        begun = {name: value for name, value, _ in assignments(function) if isinstance(value, ast.Subscript)}
        for loop in walked(function):
            if not isinstance(loop, ast.For):
                continue
            for name, value, line in assignments(loop):
                if (
                    name not in begun
                    or not isinstance(value, ast.Call)
                    or any(is_name(one, name) for one in walked(value))
                ):
                    continue
                whole = ast.unparse(begun[name].value) if isinstance(begun[name], ast.Subscript) else ""
                if any(isinstance(one, ast.Subscript) and ast.unparse(one.value) == whole for one in walked(value)):
                    words = f"{name} = {ast.unparse(value)} steps from the true state each time, and not from its own"
                    yield "formula", words, line


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _other_variable,
    _first_for_second,
    _standing_time,
    _unreversed,
    _turned_flow,
    _unsquared_information,
    _unrolled_from_the_truth,
)
