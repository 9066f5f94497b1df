"""Causes that speak from how samples are made: their order, their labels, their scale, and what they give away."""

import ast
from typing import Final

from .edits import Edit, called, names_in
from .roles import Roles, all_words, assigned, of_inputs, of_labels, words_in, words_of

#: Words of what orders samples, and calls that do.
_ORDERS: Final = frozenset(
    {
        "perm", "permutation", "order", "idx", "index", "indices", "turn", "rows", "randperm", "shuffle", "shuffled",
        "roll", "flip", "sorted", "sort", "argsort", "gather", "rank", "randint", "rot90", "fliplr", "flipud",
    }
)  # fmt: skip
_MIXING: Final = frozenset({"flip", "roll", "gather", "argsort", "rot90", "repeat", "repeat_interleave", "shuffle"})
_AXES: Final = frozenset({"t", "T", "transpose", "permute", "swapaxes"})
_DRAWS: Final = frozenset({"randint", "choice", "sample", "integers", "randrange"})
_NOISE: Final = frozenset({"randn", "randn_like", "rand_like"})
_LOSS_CALLS: Final = frozenset({"loss", "criterion", "entropy", "mse", "nll", "crossentropy"})
_OF_SHAPE: Final = frozenset({"unsqueeze", "squeeze", "view", "view_as", "reshape", "flatten"})
_CAUSAL: Final = frozenset({"is_causal", "causal", "tril", "triu", "attn_mask", "src_mask", "tgt_mask", "future"})
_PADDING: Final = frozenset(
    {
        "key_padding_mask", "attention_mask", "padding_mask", "src_key_padding_mask", "pad_mask", "pad", "padding",
        "lengths",
    }
)  # fmt: skip
_PADDED: Final = frozenset({"pad", "padding", "keep", "lengths"})
_NORMAL: Final = frozenset(
    {"normalize", "standardize", "normalise", "standardise", "mean", "mu", "std", "sd", "scaler", "transform", "sigma"}
)
_PREPARED: Final = _NORMAL | {"collate", "degrade", "preprocess", "augment", "crop", "resize", "fit"}
_TESTED: Final = frozenset({"test", "val", "valid", "te", "dev"})
_PARTS: Final = {
    "train": frozenset({"train", "training"}),
    "test": frozenset({"test", "testing"}),
    "val": frozenset({"val", "valid", "validation", "dev"}),
}
#: Factor or offset from which an input is of another scale. Our choice.
_OTHER_SCALE: Final = 2.0
_MODELS: Final = frozenset({"model", "net", "network", "encoder", "decoder", "student"})


def loaders(edit: Edit, roles: Roles) -> str:
    """Name samples that come in their own order, again and again, or are too few."""
    if edit.place == "shuffle" or edit.lost & {"shuffle", "RandomSampler"}:
        return "unshuffled_data"
    if edit.place in ("num_replicas", "rank") or "DistributedSampler" in edit.lost:
        return "identical_rank_data"
    if "Subset" in edit.gained:
        return "overfitting"
    is_drawn = any(called(node) in _DRAWS for node in edit.calls) and edit.place in ("0", "1", "high")
    is_iterated = called(edit.after) == "next" and "iter" in edit.gained
    is_fixed = bool(edit.lost & roles.gone & _DRAWS) and "randperm" not in edit.gained
    return "repeated_batch" if is_iterated or is_fixed or is_drawn else ""


def masks(edit: Edit, roles: Roles) -> str:
    """Name a mask of the future or of padding that is gone, or says the opposite."""
    if "Decoder" in edit.lost and "Encoder" in edit.gained:
        return "data_leak"  # a decoder is causal, an encoder is not
    if edit.place == "diagonal":
        return "data_leak" if edit.texts[1] > edit.texts[0] else "non_finite_activation"
    if edit.texts[1] == "None" and "mask" in edit.lost:
        return "data_leak"
    if edit.place == "ignore_index" or "ignore_index" in edit.lost:
        return "padding_counted"
    words = all_words(edit.gained | edit.lost | {edit.place} | assigned(edit.line))
    changed = edit.lost | {edit.place} | (edit.gained if edit.kind == "replaced" else frozenset())
    if changed & _CAUSAL or "causal" in words:
        is_padding = bool((words | words_in(edit.before)) & _PADDED) and not edit.lost & {"causal", "tril", "triu"}
        return "padding_attended" if is_padding and changed & _CAUSAL else "data_leak"
    is_counted = roles.is_loss(edit) or not roles.is_forward(edit)
    if (edit.lost | {edit.place}) & _PADDING or words & {"pad", "padding"}:
        return "padding_counted" if is_counted else "padding_attended"
    return "padding_counted" if roles.is_loss(edit) and edit.lost & {"masked_fill", "mask", "valid", "weight"} else ""


def shared_samples(edit: Edit, roles: Roles) -> str:
    """Name validation data that are prepared otherwise."""
    names, words = assigned(edit.line), all_words(edit.lost | edit.gained)
    is_moved = edit.kind == "moved" and bool(words_in(edit.line.node) & _NORMAL) and of_inputs(names)
    is_test = (bool(all_words(names) & _TESTED) and "train" not in all_words(names)) or roles.is_evaluation(edit)
    is_other = is_test and (bool(words & _PREPARED) or (edit.is_whole_line and of_inputs(names)))
    is_vocabulary = bool(words & {"vocab", "vocabulary"}) and not roles.is_forward(edit)
    is_fitted = edit.kind == "added" and "fit" in words_of(called(_value(edit)))
    is_by_mode = isinstance(edit.after, ast.Assign) and of_inputs(names) and "training" in edit.gained
    return "train_val_shift" if is_moved or is_other or is_vocabulary or is_fitted or is_by_mode else ""


def _value(edit: Edit) -> ast.AST | None:
    return getattr(edit.line.node, "value", None)


def leaks(edit: Edit, roles: Roles) -> str:
    """Name targets that are the input, or inputs that hold the target."""
    if "fill_diagonal_" in edit.lost:
        return "data_leak"
    if any(isinstance(node, ast.Slice) for node in _near(edit)) or (_slices(edit.before) and _slices(edit.after)):
        return _of_slices(edit, roles)
    parts = {_split(edit.before), _split(edit.after)}
    return "data_leak" if (len(parts) > 1 and "" not in parts) or _is_other_input(edit) else ""


def _of_slices(edit: Edit, roles: Roles) -> str:
    """Name other places of a sequence: those of the input for the targets, or of others."""
    same = [_part_of(edit), *map(ast.unparse, _slices(edit.after))]
    if edit.kind == "replaced" and any(map(roles.has_value, same)):
        return "data_leak"
    if roles.is_loss(edit) or of_labels(assigned(edit.line)):
        return "uninformative_labels"
    return "" if roles.is_forward(edit) else "data_leak"


def _slices(node: ast.AST | None) -> list[ast.AST]:
    """Return the places of a sequence that an expression takes, with the sequence."""
    nodes = ast.walk(node) if node is not None else ()
    return [
        one for one in nodes if isinstance(one, ast.Subscript) and any(isinstance(x, ast.Slice) for x in ast.walk(one))
    ]


def _near(edit: Edit) -> tuple[ast.AST | None, ...]:
    return (edit.before, edit.after, *edit.path)


def _part_of(edit: Edit) -> str:
    """Return the text of the value that holds what differs, the part of it where it has several."""
    value = _value(edit)
    value = value.value if isinstance(value, ast.Yield) else value
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    found = [part for part in parts if part is not None and any(node is edit.after for node in ast.walk(part))]
    return ast.unparse(found[0]) if found else ""


def _split(node: ast.AST | None) -> str:
    """Return which part of the data a name speaks of; empty for none, or for several."""
    found = [part for part, known in _PARTS.items() if words_in(node) & known]
    return found[0] if len(found) == 1 else ""


def _is_other_input(edit: Edit) -> bool:
    """Return whether a model is given another value."""
    name = called(edit.calls[-1] if edit.calls else None)
    is_model = bool(_MODELS & words_of(name)) or name in ("step", "decode")
    is_plain = all(isinstance(one, ast.Name | ast.Subscript) for one in (edit.before, edit.after))
    return is_model and is_plain and edit.place in ("0", "x", "input", "inputs")


def labels(edit: Edit, roles: Roles) -> str:
    """Name labels that are no longer those of their inputs."""
    names = edit.gained | edit.lost
    is_label_loss = roles.is_loss(edit) and not edit.gained & {"softmax", "sigmoid"} and _speaks_of_labels(edit)
    if roles.is_forward(edit) and not is_label_loss:
        return ""
    is_inside = any(called(node) in _MIXING for node in edit.calls) and edit.place != "receiver"
    is_repeated = {called(edit.before), called(edit.after)} == {"repeat", "repeat_interleave"}
    if is_inside or is_repeated or all_words(names) & _ORDERS or names & _AXES:
        return "uninformative_labels"
    if roles.is_loss(edit) and edit.kind == "replaced" and _is_target(edit, is_label_loss=is_label_loss):
        if of_inputs(edit.gained) and not of_labels(edit.gained):
            return "data_leak"
        return "" if edit.lost & _OF_SHAPE and not edit.gained else "uninformative_labels"
    is_drawn = bool(edit.gained & _NOISE) and not edit.lost & _NOISE
    return "uninformative_labels" if is_drawn and "noise" in names | names_in(edit.line.node) else ""


def _speaks_of_labels(edit: Edit) -> bool:
    return of_labels(names_in(edit.before) | names_in(edit.after))


def _is_target(edit: Edit, *, is_label_loss: bool) -> bool:
    """Return whether what differs is what a loss compares a prediction with."""
    is_argument = bool(edit.calls) and edit.place in ("1", "target", "targets", "labels", "y")
    is_of_loss = is_argument and bool(words_of(called(edit.calls[-1])) & _LOSS_CALLS)
    return is_of_loss or ((is_argument or is_label_loss) and of_labels(names_in(edit.before)))


def rescaling(edit: Edit, roles: Roles) -> str:
    """Name an input that is brought to another scale where a module or a data set receives it."""
    node = edit.after
    if edit.kind != "added" or not isinstance(node, ast.Assign):
        return ""
    values = [one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)]
    largest = max((abs(value) for value in values if isinstance(value, int | float)), default=0.0)
    is_input = roles.is_argument(edit, ast.unparse(node.targets[0]))
    return "unnormalized_input" if is_input and largest >= _OTHER_SCALE else ""


def _is_standardised(node: ast.AST | None) -> bool:
    """Return whether an expression is a difference, divided by something."""
    is_quotient = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    return is_quotient and isinstance(node, ast.BinOp) and isinstance(getattr(node.left, "op", None), ast.Sub)


def _rescales_itself(node: ast.AST | None) -> bool:
    """Return whether a statement divides a value by a number and keeps its name: `x = (x / 54 - 1) * 4`."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return False
    quotients = [one for one in ast.walk(node.value) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Div)]
    is_by_number = any(isinstance(one.right, ast.Constant) for one in quotients)
    return is_by_number and names_in(node.value) == {node.targets[0].id}


def scaling(edit: Edit, roles: Roles) -> str:
    """Name inputs that are no longer brought to unit scale."""
    is_call = edit.kind == "removed" and bool(all_words([called(_value(edit))]) & {"scale", "rescale", *_NORMAL})
    if is_call and edit.is_whole_line and (of_inputs(assigned(edit.line)) or "obs" in assigned(edit.line)):
        return "unnormalized_input"
    if edit.kind == "removed" and _rescales_itself(edit.before) and not roles.is_forward(edit):
        return "unnormalized_input"
    before, names = edit.before, assigned(edit.line)
    is_quotient = isinstance(before, ast.BinOp) and isinstance(before.op, ast.Div)
    is_divided = is_quotient and isinstance(before, ast.BinOp) and isinstance(before.right, ast.Constant)
    is_normal = bool(all_words(edit.lost | edit.gained) & _NORMAL)
    if not (is_normal or is_divided) or roles.is_forward(edit) or roles.is_loss(edit):
        return ""
    if _is_standardised(before) and not _is_standardised(edit.after):
        return "unnormalized_input"
    if is_divided and (of_labels(names) or "mask" in names):
        return "loss_input_domain"
    is_input = of_inputs(names) or isinstance(edit.line.node, ast.Return) or bool(edit.calls)
    return "unnormalized_input" if is_input else ""


RULES: Final = (loaders, masks, shared_samples, leaks, labels, rescaling, scaling)
