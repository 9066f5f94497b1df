"""What may follow from what: the knowledge by which findings are folded under their causes."""

from typing import Final

_Causes = frozenset[str]

NON_FINITE: Final[_Causes] = frozenset({"non_finite_activation", "non_finite_loss", "non_finite_gradient"})
#: Judged by the shape of the loss alone, so whatever harms the loss can look like them.
_SHAPES: Final[_Causes] = frozenset({"loss_spike", "wrong_loss_sign", "uninformative_labels", "bad_batch"})
_ATTENTION: Final[_Causes] = frozenset({"attention_logit_growth", "attention_entropy_collapse"})
_INSTABILITY: Final[_Causes] = (
    NON_FINITE
    | _SHAPES
    | _ATTENTION
    | {"exploding_gradient", "loss_scale_overflow", "dead_units", "saturated_activation", "router_collapse"}
)
_STANDSTILL: Final[_Causes] = frozenset(
    {"learning_rate_too_low", "vanishing_gradient", "uninformative_labels", "plateau"}
)
_RATE: Final[_Causes] = frozenset({"learning_rate_too_high", "missing_warmup"})
_ANY: Final[_Causes] = _INSTABILITY | _STANDSTILL | _RATE

#: Said where nothing better is known: any cause that was found by then explains them.
LAST_RESORT: Final[_Causes] = frozenset({"unknown", "plateau"})
#: Said of one moment where no other cause is known: one that began at most so many steps before explains it.
MOMENTARY: Final[_Causes] = frozenset({"loss_spike"})
JUST_BEFORE: Final = 20
#: Said of a harm that the run has recovered from by then: it explains what began before, and comes behind what goes on.
PASSED: Final[_Causes] = frozenset({"missing_warmup"})
#: What costs time or memory, and what concerns other data than the training's, explains nothing of the training's loss.
_BESIDE: Final[_Causes] = frozenset(
    {"straggler", "dataloader_bound", "memory_growth", "train_val_shift", "rank_rng_error", "overfitting"}
)

#: Judged over a long window, so that what was found while it was open may explain it, whenever that began.
WINDOWED: Final[_Causes] = frozenset({"uninformative_labels", "wrong_loss_sign", "overfitting", "frozen_parameter"})
#: What only costs time; named behind what is wrong with the training itself.
PERFORMANCE: Final[_Causes] = frozenset({"straggler", "dataloader_bound"})

#: Harm that values carry from module to module, and harm that gradients carry back.
ON_THE_WAY_FORTH: Final[_Causes] = _ATTENTION | {
    "non_finite_activation",
    "dead_units",
    "saturated_activation",
    "router_collapse",
    "expert_starvation",
    "unnormalized_input",
}
ON_THE_WAY_BACK: Final[_Causes] = frozenset({"non_finite_gradient", "exploding_gradient", "vanishing_gradient"})

#: A finding is folded under an earlier one of whose consequences it is.
CONSEQUENCES: Final[dict[str, _Causes]] = {
    "accumulation_scale": _ANY | {"clipping_to_nothing"},
    "attention_entropy_collapse": _ATTENTION | _STANDSTILL,
    "attention_logit_growth": _INSTABILITY | _STANDSTILL,
    "bad_batch": _INSTABILITY | _RATE | {"unnormalized_input"},
    "bad_initialization": _ANY | {"clipping_to_nothing", "frozen_parameter"},
    "clipping_to_nothing": _STANDSTILL,
    "data_leak": frozenset({"overfitting"}),
    "dead_units": _STANDSTILL | {"frozen_parameter", "weight_decay_too_high"},
    "expert_starvation": frozenset({"frozen_parameter"}),
    "exploding_gradient": _INSTABILITY | _RATE,
    "frozen_parameter": _STANDSTILL | {"missing_optimizer_step"},
    "kl_blowup": (_SHAPES - {"wrong_loss_sign"}) | {"reward_hacking", "zero_advantage"},
    "learning_rate_too_high": _INSTABILITY
    | _STANDSTILL
    | {"missing_warmup", "zero_advantage", "kl_blowup", "frozen_parameter", "weight_decay_too_high"},
    "learning_rate_too_low": frozenset({"plateau", "uninformative_labels"}),
    "loss_input_domain": _ANY,
    "loss_scale_overflow": _SHAPES | {"non_finite_gradient", "missing_optimizer_step", "learning_rate_too_low"},
    "missing_nonlinearity": _STANDSTILL,
    "missing_optimizer_step": _STANDSTILL | {"frozen_parameter"},
    "missing_warmup": _INSTABILITY | _STANDSTILL,
    "missing_zero_grad": _ANY | {"clipping_to_nothing"},
    "optimizer_state_stale": _INSTABILITY | {"learning_rate_too_high"},
    "parameter_not_in_optimizer": _STANDSTILL | {"missing_optimizer_step"},
    "rank_desync": _INSTABILITY | _STANDSTILL | {"silent_data_corruption", "rank_rng_error"},
    "rank_dropped": frozenset({"rank_desync"}),
    "reduce_scale": _ANY | {"clipping_to_nothing"},
    "repeated_batch": _SHAPES | {"overfitting", "identical_rank_data"},
    "resume_mismatch": _ANY | {"schedule_error", "optimizer_state_stale"},
    "reward_hacking": _SHAPES | {"kl_blowup", "zero_advantage"},
    "router_collapse": frozenset({"expert_starvation", "frozen_parameter"}),
    "saturated_activation": _STANDSTILL | {"dead_units", "frozen_parameter"},
    "schedule_error": _ANY | {"missing_optimizer_step"},
    "shared_parameter_error": _INSTABILITY | _STANDSTILL,
    "silent_data_corruption": _INSTABILITY | {"rank_desync", "optimizer_state_stale"},
    "straggler": frozenset({"dataloader_bound"}),
    "train_val_shift": frozenset({"overfitting"}),
    "uninformative_labels": _INSTABILITY | {"plateau", "overfitting"},
    "unnormalized_input": _ANY | {"train_val_shift", "clipping_to_nothing"},
    "vanishing_gradient": _STANDSTILL | {"frozen_parameter"},
    "weight_decay_too_high": _INSTABILITY | _STANDSTILL | {"optimizer_state_stale"},
    "wrong_loss_sign": _ANY,
    "wrong_train_eval_mode": _SHAPES | {"plateau", "overfitting"},
    "zero_advantage": _STANDSTILL | {"missing_optimizer_step", "wrong_loss_sign"},
}
#: After the first value that is not finite, nothing that happens later in the run means anything.
AFTER_NON_FINITE: Final[_Causes] = _ANY | {"missing_optimizer_step", "frozen_parameter", "rank_desync", "overfitting"}


def may_follow(cause: str, effect: str) -> bool:
    """True when the second word may be a consequence of the first."""
    if cause in NON_FINITE:
        return effect in AFTER_NON_FINITE
    return effect in CONSEQUENCES.get(cause, frozenset())


def explains_anything(cause: str) -> bool:
    """True for causes that are enough of an answer to make a word of last resort superfluous."""
    return cause not in LAST_RESORT and cause not in _BESIDE


def possible_causes(effect: str) -> tuple[str, ...]:
    """The words from which this one may follow, sorted: what has to be ruled out before it is believed."""
    causes = {*CONSEQUENCES, *NON_FINITE}
    return tuple(sorted(cause for cause in causes if cause != effect and may_follow(cause, effect)))
