"""Tells listeners of the entropies that a program asks distributions for."""

from collections.abc import Callable
from typing import Any

from torch.distributions import Categorical, Normal

from ...checks.function_mode import is_transformed
from .torch_patches import PatchedFunctions, report


def _watched(original: Callable[..., Any]) -> Callable[..., Any]:
    def entropy(self: Any) -> Any:
        result = original(self)
        if not is_transformed():
            report(entropies.awake, "entropy_returned", result)
        return result

    return entropy


def _patch() -> None:
    for kind in (Categorical, Normal):
        entropies.put(kind, "entropy", _watched)


#: Listeners have `entropy_returned(result)`.
entropies: PatchedFunctions[Any] = PatchedFunctions(_patch)
