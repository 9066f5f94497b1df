"""What may follow from what: the causes that explain other causes."""

from typing import Final

Causes = frozenset[str]

NON_FINITE: Final[Causes] = frozenset({"non_finite_activation", "non_finite_loss", "non_finite_gradient"})
#: Causes that are judged by the shape of the loss alone; anything that harms the loss can look like them.
SHAPES: Final[Causes] = frozenset({"loss_spike", "wrong_loss_sign", "uninformative_labels", "bad_batch"})
ATTENTION: Final[Causes] = frozenset({"attention_logit_growth", "attention_entropy_collapse"})
_INSTABILITY: Final[Causes] = (
    NON_FINITE
    | SHAPES
    | ATTENTION
    | {"exploding_gradient", "loss_scale_overflow", "dead_units", "saturated_activation", "router_collapse"}
)
_STANDSTILL: Final[Causes] = frozenset(
    {
        "learning_rate_too_low",
        "vanishing_gradient",
        "uninformative_labels",
        "plateau",
        "collapsed_output",
        "ignored_input",
    }
)
_RATE: Final[Causes] = frozenset({"learning_rate_too_high", "missing_warmup"})
_ANY: Final[Causes] = _INSTABILITY | _STANDSTILL | _RATE

#: Causes of last resort: any cause that was found by then explains them.
LAST_RESORT: Final[Causes] = frozenset({"unknown", "plateau"})
#: Causes that cost time or memory, or concern other data: they explain nothing of the training's loss.
_BESIDE: Final[Causes] = frozenset(
    {"straggler", "dataloader_bound", "memory_growth", "train_val_shift", "rank_rng_error", "overfitting"}
)

#: Parts of a model that get nothing to learn any more. Labels that tell nothing, and a loss with the wrong sign,
#: explain them if they begin later: after that was found on a batch, or after a loss that never fell was judged.
FADED_LATER: Final[Causes] = frozenset({"frozen_parameter", "expert_starvation", "vanishing_gradient"})

#: The causes that may follow from each cause; such a finding is folded under the earlier one.
CONSEQUENCES: Final[dict[str, Causes]] = {
    "accumulation_scale": _ANY | {"clipping_to_nothing"},
    "attention_entropy_collapse": ATTENTION | _STANDSTILL,
    "attention_logit_growth": _INSTABILITY | _STANDSTILL,
    "bad_batch": _INSTABILITY | _RATE | {"unnormalized_input"},
    "bad_initialization": _ANY | {"clipping_to_nothing", "frozen_parameter"},
    "clipping_to_nothing": _STANDSTILL,
    "collapsed_output": frozenset({"plateau", "uninformative_labels"}),
    "constant_loss": _STANDSTILL | {"missing_optimizer_step"},
    "data_leak": SHAPES | {"overfitting", "unused_value"},
    "dead_units": _STANDSTILL | {"frozen_parameter", "weight_decay_too_high"},
    "dropout_too_high": _STANDSTILL | SHAPES,
    "expert_starvation": frozenset({"frozen_parameter"}),
    "exploding_gradient": _INSTABILITY | _RATE,
    "flow_error": _STANDSTILL | SHAPES,
    "formula_error": _STANDSTILL | SHAPES,
    "reshape_error": _STANDSTILL | SHAPES | {"data_leak"},
    "unused_value": _STANDSTILL | SHAPES | {"overfitting"},
    "frozen_parameter": _STANDSTILL | {"missing_optimizer_step", "unused_value"},
    "gradient_into_target": _STANDSTILL | SHAPES | {"unused_value"},
    "hang": frozenset({"program_error", "process_killed", "straggler", "dataloader_bound"}),
    "ignored_input": _STANDSTILL | SHAPES | {"overfitting", "unused_value"},
    "kl_blowup": (SHAPES - {"wrong_loss_sign"}) | {"reward_hacking", "zero_advantage"},
    "learning_rate_too_high": _INSTABILITY
    | _STANDSTILL
    | {"missing_warmup", "zero_advantage", "kl_blowup", "frozen_parameter", "weight_decay_too_high"},
    "learning_rate_too_low": frozenset({"plateau", "uninformative_labels"}),
    "loss_input_domain": _ANY | {"sample_mixing"},
    "loss_scale_overflow": SHAPES | {"non_finite_gradient", "missing_optimizer_step", "learning_rate_too_low"},
    "memory_growth": frozenset({"out_of_memory", "process_killed"}),
    "missing_nonlinearity": _STANDSTILL | {"unused_value"},
    "missing_optimizer_step": _STANDSTILL | {"frozen_parameter", "stale_weights"},
    "missing_warmup": _INSTABILITY | _STANDSTILL | {"unused_value"},
    "missing_zero_grad": _ANY | {"clipping_to_nothing"},
    "optimizer_state_stale": _INSTABILITY | _STANDSTILL | {"learning_rate_too_high", "learning_rate_too_low"},
    "padding_attended": _STANDSTILL | SHAPES | {"unused_value"},
    "padding_counted": _STANDSTILL | {"unused_value"},
    "parameter_not_in_optimizer": _STANDSTILL
    | {"missing_optimizer_step", "unused_value", "wrong_train_eval_mode", "stale_weights", "rank_desync"},
    "rank_desync": _INSTABILITY | _STANDSTILL | {"silent_data_corruption", "rank_rng_error"},
    "rank_dropped": frozenset({"rank_desync"}),
    "reduce_scale": _ANY | {"clipping_to_nothing"},
    "repeated_batch": SHAPES | {"overfitting", "identical_rank_data"},
    "reseeded_generator": _STANDSTILL | {"repeated_batch", "overfitting"},
    "resume_mismatch": _ANY | {"schedule_error", "optimizer_state_stale"},
    "reward_hacking": SHAPES | {"kl_blowup", "zero_advantage"},
    "rounded_updates": _STANDSTILL | {"missing_optimizer_step"},
    "router_collapse": frozenset({"expert_starvation", "frozen_parameter"}),
    "sample_mixing": _STANDSTILL | SHAPES | {"overfitting", "data_leak"},
    "saturated_activation": _STANDSTILL | {"dead_units", "frozen_parameter"},
    "schedule_error": _ANY | {"missing_optimizer_step", "unused_value"},
    "shared_parameter_error": _INSTABILITY | _STANDSTILL,
    "silent_data_corruption": _INSTABILITY | {"rank_desync", "optimizer_state_stale"},
    "stale_weights": _INSTABILITY | _STANDSTILL | {"rank_desync", "silent_data_corruption"},
    "straggler": frozenset({"dataloader_bound"}),
    "train_val_shift": frozenset({"overfitting"}),
    "uninformative_labels": _INSTABILITY | {"plateau", "overfitting", *FADED_LATER},
    "stale_target": _STANDSTILL | SHAPES | {"unused_value"},
    "unnormalized_input": _ANY | {"train_val_shift", "clipping_to_nothing"},
    "unshuffled_data": _INSTABILITY | _STANDSTILL | {"overfitting"},
    "vanishing_gradient": _STANDSTILL | {"frozen_parameter"},
    "weight_decay_too_high": _INSTABILITY | _STANDSTILL | {"optimizer_state_stale"},
    "wrong_backward": _ANY,
    "wrong_loss_sign": _ANY | {"frozen_parameter"},
    "wrong_train_eval_mode": SHAPES | {"plateau", "overfitting"},
    "zero_advantage": _STANDSTILL | {"missing_optimizer_step", "wrong_loss_sign"},
}
#: After the first value that is not finite, nothing that happens later in the run means anything.
AFTER_NON_FINITE: Final[Causes] = _ANY | {
    "missing_optimizer_step",
    "frozen_parameter",
    "rank_desync",
    "overfitting",
    "program_error",
}


def may_follow(cause: str, effect: str) -> bool:
    """Return True when the second cause may be a consequence of the first."""
    if cause in NON_FINITE:
        return effect in AFTER_NON_FINITE
    return effect in CONSEQUENCES.get(cause, frozenset())


def explains_anything(cause: str) -> bool:
    """Return True for causes that are answer enough to make a cause of last resort superfluous."""
    return cause not in LAST_RESORT and cause not in _BESIDE


def possible_causes(effect: str) -> tuple[str, ...]:
    """Return the causes that this one may follow from, sorted; they must be ruled out first.

    Where no cause is known, all that explain anything are possible.
    """
    causes = {*CONSEQUENCES, *NON_FINITE}
    if effect == "unknown":
        return tuple(sorted(filter(explains_anything, causes)))
    return tuple(sorted(cause for cause in causes if cause != effect and may_follow(cause, effect)))
