"""Causes that speak from the calls of a training loop: what is cleared, stepped, switched, seeded or loaded where."""

import ast
from typing import Final

from .edits import Edit, called, names_in
from .roles import DRAWN, SCHEDULES, Roles, all_words, assigned, makes_optimizer, of_teacher, words_in

_OF_CALLS: Final = {
    "step": "missing_optimizer_step",
    "zero_grad": "missing_zero_grad",
    "eval": "wrong_train_eval_mode",
    "train": "wrong_train_eval_mode",
}
_RANKS: Final = frozenset({"rank", "worker"})
_SEEDS: Final = frozenset(
    {"RandomState", "manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state", "default_rng"}
)
_CLIPS: Final = frozenset({"clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "clip_by_norm"})
_CUTS: Final = frozenset({"detach", "no_grad", "inference_mode", "stop_gradient"})
_SYNCED: Final = frozenset(
    {"load_state_dict", "copy_", "lerp_", "_foreach_lerp_", "update", "update_parameters", "sync"}
)


def _last_call(edit: Edit) -> ast.Call | None:
    """Return the call that a line consists of, or that gives its value; None for another line."""
    value = getattr(edit.line.node, "value", None)
    return value if isinstance(value, ast.Call) else None


def clearing(edit: Edit, roles: Roles) -> str:
    """Name gradients that are cleared no longer, or between backward and step."""
    name, node = called(_last_call(edit)), edit.line.node
    is_turned = name == "backward" and edit.kind == "moved"
    is_none = isinstance(node, ast.Assign) and "grad" in assigned(edit.line)
    is_zeroed = name in ("zero_", "zero") and "grad" in names_in(node)
    if not edit.is_whole_line or not (name == "zero_grad" or is_turned or is_none or is_zeroed):
        return ""
    is_too_early = is_turned or (edit.kind != "removed" and roles.is_after_backward(edit.line))
    return "missing_optimizer_step" if is_too_early else "missing_zero_grad"


def exchanged(edit: Edit, _: Roles) -> str:
    """Name a call of one optimizer in the place of another's, and one whose brackets are missing."""
    name = called(edit.calls[-1] if edit.calls else None) if edit.place == "receiver" else called(edit.before)
    is_uncalled = isinstance(edit.before, ast.Call) and isinstance(edit.after, ast.Attribute)
    if not isinstance(edit.line.node, ast.Expr) or not (edit.place == "receiver" or is_uncalled):
        return ""
    return _OF_CALLS.get(name, "")


def stepping(edit: Edit, roles: Roles) -> str:
    """Name steps of a schedule or an optimizer that are taken elsewhere, or not at all."""
    call = _last_call(edit)
    if not edit.is_whole_line or call is None:
        return ""
    if called(call) == "step" and isinstance(call.func, ast.Attribute):
        is_schedule = bool(words_in(call.func.value) & SCHEDULES or names_in(call.func.value) & roles.schedules)
        if is_schedule or (call.args and edit.kind != "removed"):
            return "schedule_error"
        return "missing_optimizer_step" if edit.kind in ("removed", "moved") else ""
    if called(call) in _CLIPS:
        return "exploding_gradient" if edit.kind == "removed" else "clipping_to_nothing"
    return "identical_rank_data" if called(call) == "set_epoch" else ""


def conditions(edit: Edit, _: Roles) -> str:
    """Name what is done under another condition: a step, a clearing of gradients, a copy into another network."""
    node = edit.line.node
    is_test = any(isinstance(one, ast.If) for one in edit.path)
    if not isinstance(node, ast.If) or not (is_test or edit.kind == "added"):
        return ""
    calls = [one for inner in node.body for one in ast.walk(inner) if isinstance(one, ast.Call)]
    if any(called(one) in _SYNCED or "ema" in words_in(one.func) for one in calls) and of_teacher(names_in(node)):
        return "stale_target"
    stepped = [words_in(one.func) for one in calls if called(one) == "step"]
    if stepped:
        is_of_ranks = bool(words_in(node.test) & {"rank", "main", "master"})
        is_schedule = all(words & SCHEDULES for words in stepped)
        return "schedule_error" if is_schedule else "stale_weights" if is_of_ranks else "missing_optimizer_step"
    return "missing_zero_grad" if "zero_grad" in map(called, calls) else ""


def forgotten(edit: Edit, roles: Roles) -> str:
    """Name a state of an optimizer that is thrown away while it trains."""
    node = edit.line.node
    is_loop = any(isinstance(line.node, ast.For | ast.While) for line in edit.line.around)
    if edit.kind not in ("added", "moved") or not is_loop:
        return ""
    is_cleared = "state" in names_in(node) and bool({"clear", "defaultdict"} & names_in(node))
    return "optimizer_state_stale" if makes_optimizer(node) or is_cleared else ""


def shared_ranks(edit: Edit, _: Roles) -> str:
    """Name what ranks no longer share, or share where they must not."""
    if (
        all_words(edit.line.names_around[-1:]) & {"broadcast", "sync"}
        and edit.calls
        and not of_teacher(names_in(edit.line.node))
    ):
        return "rank_desync"
    is_seed = bool(frozenset(map(called, edit.calls)) & _SEEDS) and bool(all_words(edit.lost | edit.gained) & _RANKS)
    return "rank_rng_error" if is_seed else ""


def ties(edit: Edit, _: Roles) -> str:
    """Name weights that two modules shared and no longer do."""
    for node in (edit.before, edit.after):
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            is_alias = isinstance(value, ast.Attribute) and value.attr == node.targets[0].attr == "weight"
            is_made = node.targets[0].attr == "weight" and called(value) == "Parameter"
            if is_alias or is_made:
                return "shared_parameter_error"
    return ""


def modes(edit: Edit, roles: Roles) -> str:
    """Name modes of training and evaluation that are entered elsewhere, or not at all."""
    call = _last_call(edit)
    is_mode = called(call) in ("eval", "train") and isinstance(call and call.func, ast.Attribute)
    is_switched = {called(edit.before), called(edit.after)} == {"eval", "train"}
    is_flag = bool(edit.calls) and called(edit.calls[-1]) == "train" and edit.kind == "replaced"
    is_other = "eval" in edit.gained | edit.lost and not roles.is_evaluation(edit)
    is_argument = edit.place in ("training", "is_training")
    is_any = (edit.is_whole_line and is_mode) or is_switched or is_flag or is_other or is_argument
    return "wrong_train_eval_mode" if is_any else ""


def followers(edit: Edit, _: Roles) -> str:
    """Name a target network, teacher or average that follows otherwise, and a state that is not loaded."""
    call = _last_call(edit)
    if _is_average(edit) or _is_follower(edit, {called(call), *map(called, edit.calls)}):
        return "stale_target"
    is_load = "load_state_dict" in (called(call), *map(called, edit.calls)) or "load_state_dict" in edit.lost
    return "resume_mismatch" if (is_load and edit.kind != "added") or edit.place == "strict" else ""


def _is_average(edit: Edit) -> bool:
    """Return whether a line belongs to the update of an average of weights."""
    inner = edit.line.names_around[-1:]
    is_function = bool(all_words(inner) & {"ema", "polyak", "soft", "sync"})
    is_class = "ema" in all_words(edit.line.names_around) and inner in (("update",), ("step",))
    return (is_function and isinstance(edit.line.node, ast.Expr | ast.Assign)) or is_class


def _is_follower(edit: Edit, calls: set[str]) -> bool:
    """Return whether a network that follows another gets its weights in a line; a target in a loss is a label."""
    node = edit.line.node
    if {"loss", "criterion"} & all_words(called(one) for one in ast.walk(node)):
        return False
    is_synced = bool(calls & _SYNCED) or "ema" in all_words(calls)
    is_argument = isinstance(node, ast.Expr) and bool(edit.calls) and edit.place in ("", "0", "1", "2", "order")
    return of_teacher(names_in(node) - {"momentum"}) and (is_synced or is_argument)


def seeds(edit: Edit, roles: Roles) -> str:
    """Name a generator that starts anew where it must go on."""
    is_added = edit.kind in ("added", "moved") or bool(edit.gained & _SEEDS)
    found = names_in(edit.after) & _SEEDS
    if not is_added or not found or (edit.kind == "added" and not edit.is_whole_line):
        return ""
    near = all_words((*edit.line.names_around, *assigned(edit.line), *map(called, edit.calls)))
    is_batch = bool(near & (DRAWN | {"data"})) or roles.is_before_draw(edit.line)
    return "repeated_batch" if is_batch else "reseeded_generator"


def graphs(edit: Edit, roles: Roles) -> str:
    """Name a derivative that is held constant, or one that is not."""
    changed = edit.gained | edit.lost
    if "create_graph" in changed | {edit.place}:
        return "wrong_backward"
    if edit.gained & _CUTS or ("item" in edit.gained and roles.is_loss(edit)):
        # a state that is carried from step to step loses its derivative; a layer that is cut off is not trained
        return "wrong_backward" if _is_carried(edit) else "frozen_parameter"
    if edit.lost & _CUTS and not roles.is_evaluation(edit):
        return "gradient_into_target"
    is_frozen = bool({"requires_grad", "requires_grad_"} & (changed | {edit.place})) or edit.place in (
        "use_reentrant",
        "freeze",
    )
    return "frozen_parameter" if is_frozen or "from_pretrained" in edit.gained else ""


def _is_carried(edit: Edit) -> bool:
    """Return whether a line computes a state from the one before it, in a loop without a step, or keeps one."""
    loops = [line.node for line in edit.line.around if isinstance(line.node, ast.For | ast.While)]
    is_trained = any(called(node) in ("backward", "step") for loop in loops for node in ast.walk(loop))
    value = getattr(edit.line.node, "value", None)
    is_own = bool(assigned(edit.line) & names_in(value))
    targets = edit.line.node.targets if isinstance(edit.line.node, ast.Assign) else []
    is_kept = any(ast.unparse(one).startswith("self.") for one in targets)
    return (is_own and bool(loops) and not is_trained) or is_kept


RULES: Final = (
    shared_ranks,
    ties,
    conditions,
    forgotten,
    exchanged,
    clearing,
    stepping,
    modes,
    followers,
    seeds,
    graphs,
)
