"""What each loss expects of its first argument, and whether what it was given contradicts that."""

from typing import Final

from ...storage import Event
from ..event_fields import number

#: Further steps in which an uncertain domain must hold, if the operation that made the values is unknown: a fresh
#: network may put out similar values by chance.
_WAITED = 3
#: Operations whose output always lies between 0 and 1.
_SQUASHING = ("sigmoid", "softmax", "hardsigmoid", "clamp", "clip")
_SOFTMAX_TWICE = (
    "the softmax is applied twice: gradients shrink and the loss cannot fall below that of a probability of one, "
    "log(1 + (columns - 1) / e)"
)

#: (loss, domain): (what is wrong, what to do, whether one sample proves it).
WRONG: Final[dict[tuple[str, str], tuple[str, str, bool]]] = {
    ("cross_entropy", "probabilities"): (
        _SOFTMAX_TWICE,
        "give cross_entropy the logits; or take their log_softmax and use nll_loss",
        True,
    ),
    ("nll_loss", "logits"): (
        "the loss then has no lower bound, so it can fall without the model learning anything",
        "give nll_loss the log_softmax of the logits, or the logits to cross_entropy",
        True,
    ),
    ("nll_loss", "probabilities"): (
        "the loss is then minus the probability, not minus its logarithm",
        "give nll_loss the log_softmax of the logits instead of their softmax",
        True,
    ),
    ("kl_div", "probabilities"): (
        "it expects log-probabilities",
        "give kl_div the log_softmax of the logits instead of their softmax",
        True,
    ),
    ("kl_div", "logits"): (
        "it expects log-probabilities, and these values are not normalised",
        "give kl_div the log_softmax of the logits",
        True,
    ),
    ("ctc_loss", "probabilities"): (
        "it expects log-probabilities",
        "give ctc_loss the log_softmax of the logits over the classes instead of their softmax",
        True,
    ),
    ("ctc_loss", "logits"): (
        "it expects log-probabilities over the last axis, and these values are not normalised along it",
        "give ctc_loss the log_softmax of the logits over the last axis, the classes",
        True,
    ),
    ("binary_cross_entropy", "logits"): (
        "it expects probabilities between 0 and 1",
        "use binary_cross_entropy_with_logits, or take the sigmoid before",
        True,
    ),
    ("binary_cross_entropy_with_logits", "unit_interval"): (
        "the sigmoid is applied twice: the prediction cannot leave the range from 0.5 to 0.73",
        "give binary_cross_entropy_with_logits the logits, without a sigmoid before it",
        False,
    ),
    ("poisson_nll_loss", "rates"): (
        "it takes their exponential, so no predicted rate can be below 1, and large ones grow without measure",
        "give it the layer's output as it is, the logarithm of the rate; or say log_input=False",
        True,
    ),
    ("poisson_nll_loss", "log_rates"): (
        "a rate is not negative, and the loss of such a value is not bounded below",
        "leave out log_input=False, or give it the exponential or softplus of the layer's output",
        True,
    ),
    ("binary_cross_entropy_with_logits", "rectified"): (
        "its sigmoid is never below one half, so no answer can be no",
        "give binary_cross_entropy_with_logits the layer's output, without an activation before it",
        True,
    ),
    ("binary_cross_entropy_with_logits", "probabilities"): (
        "a sigmoid is applied to probabilities that already sum to one",
        "give binary_cross_entropy_with_logits the logits, without a softmax before it",
        True,
    ),
}
#: Operations whose output is never negative.
_POSITIVE: Final = ("softplus", "exp", "relu", "sigmoid")
_WORDS = {
    "rectified": "what a {} made, which is never negative, as logits",
    "probabilities": "probabilities (rows that sum to one)",
    "logits": "values that are neither probabilities nor log-probabilities",
    "rates": "what a {} made, which is never negative, as logarithms of rates",
    "log_rates": "values below zero as rates",
    "unit_interval": "values strictly between 0 and 1 in every sample so far",
}


def domain_of_input(event: Event) -> str:
    """Return what a loss was given; of a Poisson likelihood whether these are no logarithms, or no rates.

    Logits that a relu made are of a domain of their own.
    """
    options, domain = event.data.get("options"), str(event.data.get("domain"))
    if event.data.get("loss") == "binary_cross_entropy_with_logits" and event.data.get("made_by") == "relu":
        return "rectified"
    if event.data.get("loss") != "poisson_nll_loss":
        return domain
    if isinstance(options, dict) and options.get("log_input") is False:
        return "log_rates" if number(event, "min") < 0.0 else domain
    return "rates" if event.data.get("made_by") in _POSITIVE else domain


def is_beyond(loss: str, domain: str, event: Event) -> bool:
    """Return whether a value lies outside the domain: a probability may round to exactly 0 or 1."""
    if domain != "logits" or loss not in ("binary_cross_entropy", "nll_loss"):
        return True
    is_above = number(event, "max") > (1.0 if loss == "binary_cross_entropy" else 0.0)
    return is_above or (loss == "binary_cross_entropy" and number(event, "min") < 0.0)


def is_certain(event: Event, is_proof: bool, waited: int) -> bool:
    """Return whether the domain is certain: by one sample, by the operation that made it, or after enough steps."""
    made_by = event.data.get("made_by")
    return is_proof or (made_by in _SQUASHING if made_by else waited >= _WAITED)


def words_of(domain: str, event: Event) -> str:
    """Return what such values are, for a sentence."""
    return _WORDS[domain].format(event.data.get("made_by"))
