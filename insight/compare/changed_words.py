"""Names the cause of a change in the program by the words that the changed lines gained or lost.

A line that has gained `detach` cuts a gradient, one that has lost `shuffle` no longer mixes its samples. The words only
name what two runs that started alike were seen to do otherwise; alone they find nothing.
"""

import re
from collections.abc import Iterable
from typing import Final

from .setting_differences import Difference

_WORD: Final = re.compile(r"[A-Za-z_]\w*")
#: Cause by words that appeared, that vanished, that did either, and that stand in a changed line; the first that fits
#: counts.
_GAINED: Final = (
    ({"detach", "no_grad", "item", "stop"}, "wrong_backward"),
    ({"eval"}, "wrong_train_eval_mode"),
    ({"softmax", "log_softmax", "sigmoid", "argmax"}, "loss_input_domain"),
    ({"requires_grad", "requires_grad_"}, "frozen_parameter"),
    ({"randperm", "roll", "permutation", "flip", "randint"}, "uninformative_labels"),
    ({"manual_seed", "seed"}, "reseeded_generator"),
)
_LOST: Final = (
    ({"zero_grad"}, "missing_zero_grad"),
    ({"step"}, "missing_optimizer_step"),
    ({"train"}, "wrong_train_eval_mode"),
    ({"detach", "no_grad"}, "gradient_into_target"),
    ({"relu", "gelu", "tanh", "silu", "elu", "leaky_relu"}, "missing_nonlinearity"),
    ({"softmax", "log_softmax", "sigmoid"}, "loss_input_domain"),
    ({"normalize", "standardize", "mean", "std"}, "unnormalized_input"),
    (
        {"init", "xavier_uniform_", "kaiming_normal_", "kaiming_uniform_", "orthogonal_", "trunc_normal_"},
        "bad_initialization",
    ),
    ({"is_causal", "causal", "tril", "triu", "attn_mask", "src_mask", "tgt_mask"}, "data_leak"),
    ({"key_padding_mask", "attention_mask", "padding_mask", "src_key_padding_mask", "pad_mask"}, "padding_attended"),
    ({"ignore_index", "masked_fill"}, "padding_counted"),
)
_EXCHANGED: Final = (({"label", "labels", "target", "targets", "y"}, "uninformative_labels"),)
_TOUCHED: Final = (
    ({"shuffle"}, "unshuffled_data"),
    ({"clip_grad_norm_", "clip_grad_value_", "max_norm"}, "clipping_to_nothing"),
    ({"scheduler", "lr_scheduler", "sched", "warmup", "T_max", "gamma"}, "schedule_error"),
    ({"momentum", "betas", "ema", "tau"}, "optimizer_state_stale"),
    ({"ignore_index"}, "padding_counted"),
)


def cause_of(changes: Iterable[Difference]) -> str:
    """Return the cause that the changed lines of a program speak of; empty if they speak of none, or of several."""
    found = {_cause(change) for change in changes if change.area == "program"}
    return found.pop() if len(found) == 1 else ""


def _cause(change: Difference) -> str:
    first, second = (_words(text) for text in (change.first, change.second))
    tables = (
        (_GAINED, first - second),
        (_LOST, second - first),
        (_EXCHANGED, first ^ second),
        (_TOUCHED, first | second),
    )
    for table, words in tables:
        for known, cause in table:
            if known & words:
                return cause
    return ""


def _words(text: object) -> set[str]:
    """Return the identifiers of a text, and the keywords among them; empty for what is not there."""
    return set(_WORD.findall(text)) if isinstance(text, str) else set()
