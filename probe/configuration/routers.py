"""Modules that send tokens to experts, where they do not say so themselves."""

from typing import Literal

from pydantic import Field

from .scalars import Number, Whole
from .strict import Strict


class Router(Strict):
    """Modules that send tokens to experts; those with a child `router` and a number `top_k` need no word.

    Args:
        top_k: How many experts a token goes to.
        holds: What the tensor is: logits or probabilities of all experts, or the numbers of the chosen ones.
        output: Which of several outputs it is: a place in a tuple, or a name in a mapping or an object.
        attribute: The module's attribute that holds it after the forward, instead of an output.
        experts: How many there are, where the tensor does not tell; of scores of another number nothing is recorded.
        capacity_factor: Of experts that drop tokens beyond `factor * assignments / experts`; None for none.
    """

    sites: tuple[str, ...] = Field(min_length=1)
    top_k: Whole = Field(default=1, ge=1)
    holds: Literal["logits", "probabilities", "experts"] = "logits"
    output: Whole | str = 0
    attribute: str | None = None
    experts: Whole | None = Field(default=None, ge=1)
    capacity_factor: Number | None = Field(default=None, gt=0.0, allow_inf_nan=False)
