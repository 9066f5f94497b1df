"""Recognises the kind of a training from what it calls: losses, distributions, what is given to the model and how."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ...storage.percent import percent
from ...storage.training_kinds import TrainingKind

#: Losses of class labels, and of numbers.
_OF_CLASSES: Final = frozenset(
    {"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "ctc_loss"}
)
_OF_NUMBERS: Final = frozenset(
    {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "gaussian_nll_loss", "poisson_nll_loss"}
)
#: Losses that a program may write out, in words.
_WRITTEN: Final = {
    "mse_loss": "a squared error, written out",
    "l1_loss": "an absolute error, written out",
    "nll_loss": "a negative log-likelihood, written out",
}
#: Steps in a row with the very same input before it is taken for all there is. Our choice.
_SAME_STEPS: Final = 3
#: Share of the steps in which the model answers without gradients on less than a batch: it acts. Our choice, as in the
#: diagnosis of self-made data.
_ACTING: Final = 0.25


@dataclass(slots=True)
class KindFacts:
    """What has been seen of a training, by the words of the framework that was asked.

    Attributes:
        losses: Loss functions that were called with gradients, and those written out: `mse_loss`, `nll_loss`.
        written: Those of them that were written out and never called.
        functions: Other functions that were called with gradients: `logsigmoid` of a difference, `softplus`.
        drawn: Distributions of the model's output that were drawn from.
        scored: Distributions whose log-probability was differentiated for values that were drawn or given.
        fitted: Distributions whose log-probability was differentiated with respect to the value.
        constants: Targets that held one value only.
        is_square: Whether a cross entropy had as many classes as samples, each sample another label.
        has_tokens: Whether the labels were the tokens that follow those that went in, or those that were hidden.
        target_is_input: Whether the target of a loss was what the model was given.
        target_is_noise: Whether it was normal noise, of the shape of the input.
        judges: Whether a loss of numbers compared one number for each sample with targets that differ.
        takes_choices: Whether a loss of numbers was given single entries of an output, picked by index.
        weighs_choices: Whether the log-probability of a choice was multiplied by a number that is no part of the graph.
        differentiates_input: Whether an output was differentiated with respect to the input, and that differentiated.
        differentiates_steps: Whether gradients of the parameters were differentiated themselves.
        is_entangled: Whether the loss of one optimizer reaches the parameters of another that has its own.
        has_slow_critic: Whether the network that it reaches so has a copy that no optimizer holds.
        optimizers: How many there are.
        has_environment: Whether a package of environments or of their trainers is in use.
        same: Steps in a row that were given the very same tensors, whole ones.
        has_loader: Whether a data loader was used.
        frozen_share: Share of the model's elements that is frozen.
        steps: Steps seen.
        acting: Steps in which the model answered without gradients on less than a batch.
    """

    losses: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    drawn: set[str] = field(default_factory=set)
    scored: set[str] = field(default_factory=set)
    fitted: set[str] = field(default_factory=set)
    constants: set[float] = field(default_factory=set)
    is_square: bool = False
    has_tokens: bool = False
    target_is_input: bool = False
    target_is_noise: bool = False
    judges: bool = False
    takes_choices: bool = False
    weighs_choices: bool = False
    differentiates_input: bool = False
    differentiates_steps: bool = False
    is_entangled: bool = False
    has_slow_critic: bool = False
    optimizers: int = 1
    has_environment: bool = False
    same: int = 0
    has_loader: bool = False
    frozen_share: float = 0.0
    steps: int = 0
    acting: int = 0


def recognised(facts: KindFacts) -> TrainingKind:
    """Return the kind that these facts tell; the first that fits, rarer ones before common ones."""
    name, reason = _named(facts)
    is_full = facts.same >= _SAME_STEPS and not facts.has_loader
    reasons = [reason] if reason else []
    if is_full:
        reasons.append("every step is given the very same whole tensors, and no data loader is used")
    is_tuned = facts.frozen_share > 0.0
    if is_tuned:
        reasons.append(f"{percent(facts.frozen_share)} of the model's elements are frozen")
    return TrainingKind(name, tuple(reasons), is_full_batch=is_full, is_fine_tuning=is_tuned)


def _named(facts: KindFacts) -> tuple[str, str]:
    found = _of_reinforcement(facts) or _generative(facts) or _by_derivatives(facts)
    return found or _supervised(facts)


def _of_reinforcement(facts: KindFacts) -> tuple[str, str] | None:
    acts = facts.steps >= 4 and facts.acting >= _ACTING * facts.steps
    both = facts.scored if acts or facts.has_environment else facts.drawn & facts.scored
    if both:
        return "policy", f"the log-probability of choices by {', '.join(sorted(both))} is differentiated"
    if facts.weighs_choices and (acts or facts.has_environment or not facts.losses):
        return "policy", "the log-probability of a choice is weighed by a number outside of the graph"
    if "logsigmoid" in facts.functions and not facts.losses:
        return "preference", "a log-sigmoid of differences is differentiated"
    acts_on_values = facts.has_environment or (acts and facts.judges)
    if facts.losses & _OF_NUMBERS and (facts.takes_choices or acts_on_values):
        what = "picked entries of the output" if facts.takes_choices else "a model that acts between its steps"
        return "value", f"a loss of numbers is given {what}"
    is_of_numbers = bool(facts.losses) and facts.losses <= _OF_NUMBERS and not facts.constants
    if not (facts.is_entangled and is_of_numbers) or facts.target_is_input:
        return None
    if facts.has_slow_critic:
        return (
            "value",
            "a loss reaches a network that a loss of its own fits to numbers, and of which a copy is kept",
        )
    if facts.judges:
        return "value", "a loss reaches a network that is fitted to one number for each sample by a loss of its own"
    return None


def _generative(facts: KindFacts) -> tuple[str, str] | None:
    if facts.is_entangled:
        return "adversarial", "the loss of one optimizer reaches what another one steps by a loss of its own"
    if {0.0, 1.0} <= facts.constants:
        return "adversarial", "a loss is called with targets that are all one, and all zero"
    if facts.target_is_noise:
        return "diffusion", "the target is normal noise of the input's shape"
    if facts.target_is_input and not facts.has_tokens:
        return "autoencoder", "the target is the input"
    if facts.fitted:
        return "flow", f"the log-probability of {', '.join(sorted(facts.fitted))} is differentiated by its value"
    return None


def _by_derivatives(facts: KindFacts) -> tuple[str, str] | None:
    if facts.is_square:
        return "contrastive", "a cross entropy has as many classes as samples, and each sample another one"
    if facts.differentiates_input and facts.optimizers > 1:
        return "adversarial", "one of several optimizers descends a penalty on the gradient by the input"
    if facts.differentiates_input:
        return "physics", "the output is differentiated by the input, and that derivative trained"
    if facts.differentiates_steps:
        return "meta", "gradients of the parameters are differentiated themselves"
    return None


def _supervised(facts: KindFacts) -> tuple[str, str]:
    classes, numbers = facts.losses & _OF_CLASSES, facts.losses & _OF_NUMBERS
    if classes and facts.has_tokens:
        return "language_model", "a cross entropy is given the tokens that follow, or those that the input hides"
    if classes:
        return "classification", f"the loss is {_in_words(classes, facts)}"
    if numbers:
        return "regression", f"the loss is {_in_words(numbers, facts)}"
    return ("other", "") if facts.steps else ("", "")


def _in_words(losses: Iterable[str], facts: KindFacts) -> str:
    """Return the names of these losses; what a loss is called in words where the program writes it out itself."""
    return ", ".join(_WRITTEN.get(loss, loss) if loss in facts.written else loss for loss in sorted(losses))
