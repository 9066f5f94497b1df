"""Is dropout off in evaluation mode? Found by watching a copy's call of torch's functions."""

from collections.abc import Mapping
from typing import Any, Final

from torch.overrides import TorchFunctionMode

from .check_result import CheckResult, broken, held

NO_DROPOUT: Final = "evaluation_is_without_dropout"
_CLAIM: Final = "in evaluation mode the model drops nothing out"
_DROPOUTS: Final = frozenset(
    {
        "dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "alpha_dropout_",
        "feature_alpha_dropout", "feature_dropout",
    }
)  # fmt: skip
_ATTENTION: Final = "scaled_dot_product_attention"


class DropoutsSeen(TorchFunctionMode):  # type: ignore[misc]
    """Notes the calls of dropout that are in force.

    Attributes:
        found: Name and probability of each.
        has_any: Whether dropout was called at all, in force or not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, float]] = []
        self.has_any = False

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), keywords: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function, and note whether it drops out."""
        keywords = keywords or {}
        name = getattr(function, "__name__", "")
        if name in _DROPOUTS:
            self.has_any = True
            share = _argument(arguments, keywords, 1, ("p",), 0.5)
            is_on = _argument(arguments, keywords, 2, ("training", "train"), True)
            if is_on and share > 0:
                self.found.append((name, float(share)))
        elif name == _ATTENTION:
            share = _argument(arguments, keywords, 4, ("dropout_p",), 0.0)
            if share > 0:
                self.found.append((name, float(share)))
        return function(*arguments, **keywords)

    def result(self) -> CheckResult | None:
        """Return the result; None for a model that has no dropout."""
        if self.found:
            name, share = self.found[0]
            words = f"in evaluation mode the model calls {name} with a probability of {share:g}, as in training"
            return broken(NO_DROPOUT, _CLAIM, words, subject=name, calls=len(self.found), probability=share)
        return held(NO_DROPOUT, _CLAIM) if self.has_any else None


def _argument(
    arguments: tuple[Any, ...], keywords: Mapping[str, Any], position: int, names: tuple[str, ...], default: Any
) -> Any:
    if position < len(arguments):
        return arguments[position]
    return next((keywords[name] for name in names if name in keywords), default)
