"""Causes that speak from a setting: which one it is, by its name, and whether it became larger or smaller."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from .edits import Edit, called, names_in
from .roles import OPTIMIZERS, SCHEDULES, Roles, all_words, assigned, makes_optimizer, of_teacher, words_in, words_of

_SCHEDULED: Final = frozenset(
    {"t_max", "total_steps", "step_size", "milestones", "steps_per_epoch", "num_warmup_steps", "num_training_steps"}
)
_RATES: Final = frozenset({"lr", "learning"})
_CREATED: Final = frozenset(
    {"ModuleList", "ModuleDict", "Parameter", "ParameterList", "register_parameter", "add_module"}
)
_GROUPS: Final = frozenset({"decay", "no_decay", "params", "groups", "parameters", "param_groups", "trainable"})
_INITIAL: Final = frozenset(
    {
        "normal_", "uniform_", "trunc_normal_", "kaiming_normal_", "kaiming_uniform_", "xavier_uniform_",
        "xavier_normal_", "orthogonal_", "constant_", "zeros_", "ones_", "fill_", "eye_", "init_weights",
        "calculate_gain",
    }
)  # fmt: skip


#: A share of dropped units that no published training was seen to have. Our choice.
_MOST_DROPPED: Final = 0.7
_OPERATIONS: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
#: Scaled losses and gradients of the order of one: plain descent at a rate of one or more diverges. Our choice.
_LARGE_RATE: Final = 1.0


def change_of(edit: Edit) -> float:
    """Return by which factor a number, or a product with one, was changed; NaN where that is not known."""
    before, after = edit.before, edit.after
    first, second = (_number(node) for node in (before, after))
    if not math.isnan(first) and not math.isnan(second):
        return second / first if first else math.inf
    if before is None or after is None:
        return math.nan
    grown, shrunk = _factor_around(after, before), _factor_around(before, after)
    return grown if not math.isnan(grown) else 1.0 / shrunk if shrunk else math.nan


def _number(node: ast.AST | None) -> float:
    """Return the value of an expression of numbers alone; NaN for another."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(node.operand)
    operation = _OPERATIONS.get(type(node.op)) if isinstance(node, ast.BinOp) else None
    if operation is not None and isinstance(node, ast.BinOp):
        with suppress(ArithmeticError):
            return float(operation(_number(node.left), _number(node.right)))
    return math.nan


def _factor_around(whole: ast.AST, part: ast.AST) -> float:
    if not isinstance(whole, ast.BinOp):
        return math.nan
    same = ast.dump(part)
    for one, other in ((whole.left, whole.right), (whole.right, whole.left)):
        if ast.dump(one) == same:
            number = _number(other)
            if isinstance(whole.op, ast.Mult):
                return number
            if isinstance(whole.op, ast.Div) and one is whole.left and number:
                return 1.0 / number
    return math.nan


def _setting(edit: Edit) -> frozenset[str]:
    """Return the words of the setting that an expression is the value of: an argument, a variable, a key, an option."""
    is_argument = bool(edit.calls) and not edit.place.isdigit()
    names = {edit.place} if is_argument or len(assigned(edit.line)) != 1 else {edit.place, *assigned(edit.line)}
    for node in reversed(edit.path):
        if isinstance(node, ast.Dict):
            same = [key for key, value in zip(node.keys, node.values, strict=True) if value is edit.after]
            names |= {str(key.value) for key in same if isinstance(key, ast.Constant)}
        if isinstance(node, ast.Call) and called(node) == "add_argument" and edit.place == "default":
            names |= {
                str(one.value).lstrip("-").replace("-", "_") for one in node.args if isinstance(one, ast.Constant)
            }
    return all_words(names)


def _is_in(edit: Edit, names: frozenset[str]) -> bool:
    return any(called(node) in names for node in edit.calls)


def _optimizer(edit: Edit) -> ast.Call | None:
    return next((node for node in edit.calls if OPTIMIZERS.match(called(node))), None)


def rates(edit: Edit, _: Roles) -> str:
    """Name a learning rate that became larger or smaller."""
    is_rate = bool(_setting(edit) & _RATES) and "min" not in _setting(edit)
    factor = change_of(edit) if is_rate else math.nan
    if math.isnan(factor) or factor == 1.0:
        return ""
    return "learning_rate_too_high" if factor > 1.0 else "learning_rate_too_low"


def schedules(edit: Edit, _: Roles) -> str:
    """Name a schedule of another course."""
    names = (*edit.line.names_around[-1:], *assigned(edit.line), *map(called, edit.calls))
    words = all_words(names)
    is_known = bool({edit.place.lower(), *(name.lower() for name in assigned(edit.line))} & _SCHEDULED)
    is_paced = bool(
        words_in(edit.line.node) & {"step", "steps", "epoch", "epochs", "warmup", "base", "progress", "cos"}
    )
    is_rate = bool(words & SCHEDULES) or any(name.endswith("LR") for name in names) or (is_paced and "lr" in words)
    is_default = any(isinstance(node, ast.arguments) for node in edit.path)
    is_named = edit.line.names_around[-1:] == ("rate",) or bool(SCHEDULES & words_of(edit.place))
    return "schedule_error" if is_known or is_named or (is_rate and not is_default) else ""


def decays(edit: Edit, _: Roles) -> str:
    """Name another decay, epsilon or memory of an optimizer."""
    words, factor = _setting(edit), change_of(edit)
    if {"wd", "weight"} & words and ("decay" in words or "wd" in words):
        return "weight_decay_too_high" if factor > 1.0 or edit.kind == "added" else ""
    if _optimizer(edit) is None:
        return ""
    is_memory = {"eps", "epsilon", "betas", "beta", "momentum", "alpha", "amsgrad"} & words
    return "optimizer_state_stale" if is_memory and edit.place != "0" else ""


def optimized(edit: Edit, roles: Roles) -> str:
    """Name parameters that an optimizer is not given, or that are made behind its back."""
    is_given = _is_given(edit) or _is_grouped(edit)
    is_plain = bool(edit.lost & _CREATED) and not edit.gained & _CREATED
    return "parameter_not_in_optimizer" if is_given or is_plain or _is_made_late(edit, roles) else ""


def _is_given(edit: Edit) -> bool:
    """Return whether what an optimizer is given differs: its first argument, or a part of it."""
    call = _optimizer(edit)
    if call is None:
        return False
    is_first = bool(call.args) and any(node is call.args[0] for node in (edit.after, *edit.path))
    return is_first or edit.place == "0" or (edit.kind == "removed" and not edit.place)


def _is_grouped(edit: Edit) -> bool:
    """Return whether a line sorts parameters into groups."""
    is_list = bool(_GROUPS & assigned(edit.line)) and bool(
        {"named_parameters", "parameters"} & names_in(edit.line.node)
    )
    around = all_words(edit.line.names_around[-1:])
    is_maker = bool({"optimizer", "optimizers", "groups"} & around) and edit.kind != "moved"
    return is_list or (is_maker and _setting(edit).isdisjoint({"lr", "wd", "weight"}))


def _is_made_late(edit: Edit, roles: Roles) -> bool:
    """Return whether an attribute of a network is put in below the line that makes the optimizer."""
    node = edit.line.node
    if not edit.is_whole_line or edit.kind == "removed" or not isinstance(node, ast.Assign):
        return False
    if makes_optimizer(node):
        return edit.kind == "moved"
    is_module = isinstance(node.targets[0], ast.Attribute) and isinstance(node.value, ast.Call)
    is_network = bool({"gen", "net", "model", "head"} & all_words(assigned(edit.line)))
    made = [one.node.lineno for one in roles.lines if isinstance(one.node, ast.Assign) and makes_optimizer(one.node)]
    return is_module and (called(node.value)[:1].isupper() or is_network) and any(at < node.lineno for at in made)


def other_optimizer(edit: Edit, _: Roles) -> str:
    """Name plain descent where an optimizer adapted its rate, and the reverse."""
    before, after = called(edit.before), called(edit.after)
    if not OPTIMIZERS.match(before) or not OPTIMIZERS.match(after) or "SGD" not in (before, after):
        return ""
    rates_ = [_number(one.value) for one in getattr(edit.after, "keywords", ()) if one.arg == "lr"]
    is_high = before == "SGD" or any(rate >= _LARGE_RATE for rate in rates_)
    return "learning_rate_too_high" if is_high else "learning_rate_too_low"


def averages(edit: Edit, _: Roles) -> str:
    """Name a target network or average that follows at another pace."""
    words = _setting(edit)
    is_pace = bool(words & {"tau", "ema", "polyak"}) or "ema" in all_words(map(called, edit.calls))
    is_kept = bool({"decay", "momentum", "every", "interval", "sync"} & words)
    is_follower = is_kept and of_teacher(names_in(edit.line.node) - {"momentum"})
    return "stale_target" if (is_pace or is_follower) and not math.isnan(change_of(edit)) else ""


def limits(edit: Edit, _: Roles) -> str:
    """Name another limit of gradients."""
    words, factor = _setting(edit), change_of(edit)
    is_named = {"clip", "norm", "max"} <= words or {"grad", "clip"} <= words
    if math.isnan(factor) or not (is_named or any("clip_grad" in called(node) for node in edit.calls)):
        return ""
    return "clipping_to_nothing" if factor < 1.0 else "exploding_gradient"


def dropped(edit: Edit, _: Roles) -> str:
    """Name another share of units that are dropped, and statistics that are kept at another pace."""
    if edit.place == "momentum" and any("Norm" in called(node) for node in edit.calls):
        return "wrong_train_eval_mode"
    is_dropout = "dropout" in _setting(edit) or any("dropout" in called(node).lower() for node in edit.calls)
    is_more = is_dropout and (change_of(edit) > 1.0 or edit.kind == "added" or _number(edit.after) >= _MOST_DROPPED)
    is_added = edit.kind == "added" and any("dropout" in name.lower() for name in edit.gained)
    return "dropout_too_high" if is_more or is_added else ""


def micro_batches(edit: Edit, _: Roles) -> str:
    """Name a loss that is no longer divided by the number of its micro-batches or ranks."""
    names = all_words(edit.lost | edit.gained)
    if names & {"accum", "accumulation", "accumulate", "micro"}:
        return "accumulation_scale"
    if {called(edit.before), called(edit.after)} == {"sum", "mean"}:
        return "reduce_scale"
    return "reduce_scale" if names & {"world"} or edit.lost & {"all_reduce", "ReduceOp", "AVG", "SUM"} else ""


def first_weights(edit: Edit, _: Roles) -> str:
    """Name weights that are begun with otherwise."""
    is_inside = _is_in(edit, _INITIAL) and edit.place != "receiver"
    is_changed = bool((edit.gained | edit.lost) & _INITIAL)
    is_setting = bool(_setting(edit) & {"init", "gain", "initializer"}) and not math.isnan(change_of(edit))
    if not (is_inside or is_changed or is_setting):
        return ""
    is_low = any(isinstance(node, ast.USub) for node in ast.walk(edit.after)) if edit.after is not None else False
    return "dead_units" if is_low and "bias" in names_in(edit.line.node) else "bad_initialization"


def scales(edit: Edit, _: Roles) -> str:
    """Name another scale of the loss of mixed precision."""
    is_scaler = edit.place in ("init_scale", "growth_interval", "growth_factor", "backoff_factor")
    if "unscale_" in edit.lost:
        return "clipping_to_nothing"
    return "loss_scale_overflow" if is_scaler else ""


RULES: Final = (
    decays, averages, rates, schedules, optimized, other_optimizer, limits, dropped, micro_batches, scales,
    first_weights,
)  # fmt: skip
