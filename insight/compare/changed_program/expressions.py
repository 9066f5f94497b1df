"""Causes that speak from an expression: its sign, axis, range or shape, and else that it is another formula."""

import ast
from typing import Final

from .edits import Edit, called, names_in
from .roles import Roles, all_words, assigned, words_of

_ACTIVATIONS: Final = frozenset(
    {
        "relu", "gelu", "tanh", "silu", "elu", "leaky_relu", "ReLU", "GELU", "Tanh", "SiLU", "ELU", "LeakyReLU",
        "Mish", "ReLU6",
    }
)  # fmt: skip
_PIECEWISE: Final = frozenset({"relu", "ReLU", "LeakyReLU", "leaky_relu", "ReLU6"})
_SQUASHING: Final = frozenset({"Sigmoid", "sigmoid", "Hardtanh", "Softsign"})
_PROBABLE: Final = frozenset(
    {"softmax", "log_softmax", "sigmoid", "argmax", "Softmax", "LogSoftmax", "Sigmoid", "logsigmoid"}
)
_LOSSES: Final = frozenset(
    {
        "NLLLoss", "CrossEntropyLoss", "BCELoss", "BCEWithLogitsLoss", "nll_loss", "cross_entropy",
        "binary_cross_entropy", "binary_cross_entropy_with_logits",
    }
)  # fmt: skip
_AXES: Final = frozenset({"dim", "axis"})
#: Calls along an axis whose first one says nothing of the samples of a batch.
_JOINING: Final = frozenset({"cat", "stack", "unsqueeze", "sum", "mean", "cumsum"})
_STATISTICS: Final = frozenset({"mean", "var", "std", "var_mean", "std_mean", "sum", "norm", "amax", "max"})
_SHAPES: Final = frozenset(
    {"permute", "transpose", "mT", "movedim", "swapaxes", "PixelShuffle", "pixel_shuffle", "rearrange"}
)
_FLAT: Final = frozenset({"view", "reshape", "flatten"})
_SQUEEZED: Final = frozenset({"unsqueeze", "squeeze", "view_as", "flatten"})
_BOOTSTRAPS: Final = frozenset({"done", "dones", "terminal", "terminated", "nonterminal", "truncated", "end", "ends"})
_GUARDS: Final = frozenset({"clamp", "clamp_min", "clip", "maximum", "nan_to_num", "log1p", "logsumexp"})
#: Numbers up to this one are added to keep a value from zero. Our choice.
_SMALL: Final = 1e-3
_TYPES: Final = frozenset(
    {"int64", "int32", "long", "float32", "float", "double", "float64", "uint8", "int8", "int16", "bool", "int"}
)
_HEADS: Final = frozenset({"head_dim", "dim_head", "d_k", "d_head", "hd", "hs", "head_size"})
_HALVES: Final = frozenset({"bfloat16", "half", "float16"})
#: Calls that make a formula another one where they are gone.
_OF_FORMULAS: Final = frozenset({"reversed", "exp", "index_add_", "scatter_add_", "normalize", "cumsum", "sqrt"})


def signs(edit: Edit, roles: Roles) -> str:
    """Name a loss whose sign, or a term of it whose sign, is another."""
    return "wrong_loss_sign" if _is_turned(edit) and (roles.is_loss(edit) or _is_climbed(edit)) else ""


def _is_climbed(edit: Edit) -> bool:
    """Return whether a line makes the aim of a policy, or differentiates."""
    words = all_words((*assigned(edit.line), *edit.line.names_around[-1:]))
    is_backward = any(called(node) == "backward" for node in ast.walk(edit.line.node))
    return bool({"pg", "surrogate", "policy", "actor", "backward"} & words) or is_backward


def _is_turned(edit: Edit) -> bool:
    """Return whether a minus came or went, a difference was turned, or a share became what it leaves of one."""
    before, after = edit.before, edit.after
    if _is_minus(before, edit.texts[1]) or _is_minus(after, edit.texts[0]):
        return True
    if isinstance(before, ast.BinOp) and isinstance(after, ast.BinOp):
        kinds = {type(before.op), type(after.op)}
        is_swapped = ast.dump(before.left) == ast.dump(after.right) and ast.dump(before.right) == ast.dump(after.left)
        return kinds == {ast.Add, ast.Sub} or (kinds == {ast.Sub} and is_swapped)
    is_exchanged = edit.place == "order" and bool(edit.calls) and "loss" in words_of(called(edit.calls[-1]))
    return is_exchanged or {called(before), called(after)} in ({"max", "min"}, {"argmax", "argmin"})


def _is_minus(node: ast.AST | None, other: str) -> bool:
    """Return whether an expression is minus another, or something minus it."""
    if isinstance(node, ast.UnaryOp):
        is_number = isinstance(node.operand, ast.Constant)
        return isinstance(node.op, ast.USub) and not is_number and ast.unparse(node.operand) == other
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and ast.unparse(node.right) == other


def axes(edit: Edit, roles: Roles) -> str:
    """Name another axis: that of the samples, or one along which the values are no distribution."""
    of = called(edit.calls[-1] if edit.calls else None)
    if edit.place == "batch_first" or "batch_first" in edit.lost:
        return "sample_mixing"
    if edit.place not in _AXES and not (of in _PROBABLE and edit.place in ("0", "1")):
        return ""
    if edit.kind == "removed" and roles.is_forward(edit) and of in _STATISTICS:
        return "sample_mixing"
    is_mixed = roles.is_forward(edit) or of == "normalize" or (not roles.is_loss(edit) and of not in _PROBABLE)
    if edit.texts[1] == "0" and is_mixed and of not in _JOINING:
        return "sample_mixing"
    return "loss_input_domain" if of in _PROBABLE else "formula_error"


def domains(edit: Edit, roles: Roles) -> str:
    """Name probabilities where logits belong, the reverse, a loss of the other kind, and targets of another shape."""
    changed = edit.gained | edit.lost
    is_squashed = bool(changed & _PROBABLE) and not edit.lost & _ACTIVATIONS
    is_target = bool(all_words(assigned(edit.line)) & {"target", "y", "u", "truth", "label", "labels"})
    is_shaped = (roles.is_loss(edit) or is_target) and bool(edit.lost & _SQUEEZED) and not edit.gained - {"view"}
    is_column = bool(changed) and changed <= {"squeeze", "unsqueeze"} and not roles.is_forward(edit)
    return "loss_input_domain" if changed & _LOSSES or is_squashed or is_shaped or is_column else ""


def attention(edit: Edit, _: Roles) -> str:
    """Name scores of attention that are scaled otherwise."""
    words = all_words(assigned(edit.line)) | all_words(edit.line.names_around)
    is_scores = bool(words & {"att", "attn", "attention", "scores", "score", "energy", "attend", "head"})
    is_scaled = bool(all_words(edit.lost | edit.gained) & {"sqrt", "scale"} or (edit.lost | edit.gained) & _HEADS)
    return "attention_logit_growth" if is_scores and is_scaled else ""


def flows(edit: Edit, _: Roles) -> str:
    """Name a flow whose map, or the volume that it changes, is another."""
    words = all_words((*edit.line.names_around, *assigned(edit.line))) | all_words(edit.lost)
    is_flow = bool(words & {"flow", "coupling", "logdet", "ldj", "jacobian"}) or {"log", "det"} <= words
    return "flow_error" if is_flow and edit.kind != "moved" and edit.path else ""


def raw_inputs(edit: Edit, roles: Roles) -> str:
    """Name an input that a module used to scale itself."""
    is_plain = isinstance(edit.after, ast.Name) and isinstance(edit.before, ast.BinOp)
    is_divided = is_plain and any(isinstance(node, ast.Div) for node in ast.walk(edit.before or ast.Pass()))
    is_input = isinstance(edit.after, ast.Name) and roles.is_argument(edit, edit.after.id)
    return "unnormalized_input" if is_divided and is_input and roles.is_forward(edit) else ""


def unread(edit: Edit, roles: Roles) -> str:
    """Name a value that the program makes, or is given, and no longer reads."""
    names = [name for name in edit.lost if name not in roles.read]
    if roles.is_forward(edit) and any(roles.is_argument(edit, name) for name in names):
        return "ignored_input"
    return "unused_value" if any(name in roles.given for name in names) else ""


def activations(edit: Edit, _: Roles) -> str:
    """Name activations that are gone, or that saturate."""
    lost, gained = edit.lost & _ACTIVATIONS, edit.gained
    if not lost:
        return ""
    if gained & _SQUASHING:
        return "vanishing_gradient"
    is_bent = bool(gained & _ACTIVATIONS) and not ({"tanh", "Tanh"} & lost and _PIECEWISE & gained)
    return "" if is_bent else "missing_nonlinearity"


def shapes(edit: Edit, _: Roles) -> str:
    """Name axes that are reshaped where they were permuted."""
    gone = edit.lost & _SHAPES
    is_flat = bool(edit.gained & _FLAT) or any(called(node) in _FLAT for node in edit.calls)
    is_order = bool(edit.calls) and any(called(node) in _FLAT for node in edit.calls) and edit.place == "order"
    return "reshape_error" if is_order or (gone and (is_flat or "PixelShuffle" in gone)) else ""


def bootstraps(edit: Edit, _: Roles) -> str:
    """Name the end of an episode, or its next state, that is heeded otherwise."""
    is_end = bool(all_words(names_in(edit.before) | names_in(edit.after)) & _BOOTSTRAPS) and _is_turned(edit)
    is_state = edit.kind == "replaced" and "next" in all_words(edit.lost) and "next" not in all_words(edit.gained)
    is_environment = bool(all_words(edit.line.names_around) & {"step", "reset", "env"})
    is_own = is_environment and bool(edit.lost & {"copy", "clone"}) and isinstance(edit.line.node, ast.Return)
    return "stale_target" if is_end or is_state or is_own else ""


def rewards(edit: Edit, _: Roles) -> str:
    """Name a reward that is a number now."""
    is_number = edit.kind == "replaced" and isinstance(edit.after, ast.Constant)
    return "zero_advantage" if is_number and all_words(edit.lost) & {"reward", "rewards", "rew"} else ""


def guards(edit: Edit, roles: Roles) -> str:
    """Name a division or logarithm that lost what kept it from zero."""
    is_small = edit.kind == "replaced" and _has_small(edit.before) and not _has_small(edit.after)
    is_guard = bool(edit.lost & _GUARDS) or bool(all_words(edit.lost) & {"eps", "epsilon"})
    if (is_small or is_guard) and any(called(node) in ("sqrt", "rsqrt", "norm") for node in (*edit.calls, edit.after)):
        return "non_finite_gradient"
    if roles.is_loss(edit):
        return "non_finite_loss" if is_small or is_guard or "log" in edit.gained else ""
    return "non_finite_activation" if is_small or is_guard else ""


def _has_small(node: ast.AST | None) -> bool:
    values = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)] if node is not None else []
    return any(isinstance(value, float) and 0.0 < value <= _SMALL for value in values)


def element_types(edit: Edit, _: Roles) -> str:
    """Name another element type of weights or of what is kept."""
    if edit.gained & _HALVES:
        words = all_words((*names_in(edit.line.node), *assigned(edit.line)))
        return "stale_target" if words & {"ema", "teacher", "shadow"} else "rounded_updates"
    is_other = bool(edit.lost & _TYPES and edit.gained & _TYPES) or (edit.place == "dtype" and edit.kind == "removed")
    return "input_mismatch" if is_other else ""


def straight_through(edit: Edit, _: Roles) -> str:
    """Name a hand-written derivative that is another."""
    is_backward = edit.line.names_around[-1:] in (("backward",), ("jvp",), ("vjp",))
    is_detached = any(called(node) == "detach" for node in ast.walk(edit.line.node))
    return "wrong_backward" if is_backward or (is_detached and _is_turned(edit)) else ""


def formulas(edit: Edit, _: Roles) -> str:
    """Name what is left: arithmetic that is done otherwise."""
    if edit.lost & _OF_FORMULAS or edit.gained & {"sample", "rsample"}:
        return "formula_error"
    arithmetic = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant, ast.Name, ast.Attribute, ast.Call, ast.Subscript)
    is_inside = any(isinstance(node, ast.BinOp | ast.UnaryOp) for node in (*edit.path, edit.before, edit.after))
    return "formula_error" if isinstance(edit.after or edit.before, arithmetic) and is_inside else ""


RULES: Final = (
    element_types, bootstraps, straight_through, rewards, signs, activations, shapes, attention, axes, domains, guards,
    raw_inputs, unread, flows,
)  # fmt: skip
LAST: Final = (formulas,)
