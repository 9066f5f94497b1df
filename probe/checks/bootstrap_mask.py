"""Where a target takes over the value of the next state: is it left out where an episode ends, and only there?"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import torch

from ...storage.percent import percent
from ..aside import is_aside
from ..guard import Guard
from .check_result import CheckResult, broken, held
from .function_mode import FunctionMode
from .model_call import outputs_of

BOOTSTRAP = "next_states_count_unless_an_episode_ends"
_CLAIM = "targets take over the value of the next state, unless an episode ends there"
#: Names of the functions that multiply.
_PRODUCTS: Final = frozenset({"mul", "__mul__", "__rmul__", "multiply", "mul_", "__imul__"})
#: Samples of a batch, looks and samples of all looks before anything is said; share of next states that count, below
#: which the mask is the wrong way round: episodes are longer than one and a half steps. Our choice.
_FEWEST, _LOOKS, _SAMPLES, _SHARE = 8, 2, 48, 0.35
#: Tensors of one step that are followed.
_MOST: Final = 200


class BootstrapMasks(FunctionMode):
    """Follows what networks answer without gradients, in one step, to products with zeros and one other number.

    A temporal difference multiplies the next state's value by zero where the episode ends (Sutton and Barto 2018,
    section 6.1; Mnih et al. 2015, algorithm 1).
    """

    def __init__(self, guard: Guard | None = None) -> None:
        super().__init__(guard)
        self._followed: dict[int, torch.Tensor] = {}
        self.shares: list[tuple[float, int]] = []

    def answered(self, output: Any) -> None:
        """Follow what a network has answered without gradients."""
        found = [tensor for tensor in outputs_of(output) if not tensor.requires_grad]
        if found and self.begin():
            self._followed.update((id(tensor), tensor) for tensor in found)

    def stop(self) -> None:
        """Follow nothing any more."""
        self._followed.clear()

    def before(self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """Look at the function if it takes something that is followed."""
        del options
        if not self._followed or is_aside():
            return None
        given = [value for value in args if isinstance(value, torch.Tensor)]
        mine = [value for value in given if id(value) in self._followed]
        if not mine or len(self._followed) >= _MOST:
            return None
        if getattr(function, "__name__", "") in _PRODUCTS and len(given) == 2 and len(mine) == 1:
            self._look(mine[0], next(value for value in given if value is not mine[0]))
        return mine

    def after(
        self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], noted: Any, result: Any
    ) -> None:
        """Follow what was made of it."""
        del function, args, options, noted
        self._followed.update((id(tensor), tensor) for tensor in _made(result) if not tensor.requires_grad)

    def _look(self, value: torch.Tensor, factor: torch.Tensor) -> None:
        count = factor.numel()
        if factor.requires_grad or factor.is_complex() or count < _FEWEST or not value.dim():
            return
        if value.numel() != count or len(value) != count:
            return  # several numbers for each sample: one of several actions is chosen
        values = factor.detach().double().reshape(-1)
        largest = values.abs().max()
        if bool(((values == 0) | (values.abs() == largest)).all()):
            self.shares.append((float((values != 0).double().mean()), count))


def _made(result: Any) -> Iterator[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, tuple | list):
        yield from (value for value in result if isinstance(value, torch.Tensor))


class BootstrapHistory:
    """The masks of several steps."""

    def __init__(self) -> None:
        self._looks: list[tuple[float, int]] = []

    def add(self, shares: list[tuple[float, int]]) -> CheckResult | None:
        """Take the masks of one step; return what all tell."""
        if shares:
            self._looks.append(min(shares))
        samples = sum(count for _, count in self._looks)
        if len(self._looks) < _LOOKS or samples < _SAMPLES:
            return None
        share = sum(share * count for share, count in self._looks) / samples
        numbers = {"share": share, "samples": float(samples), "looks": float(len(self._looks))}
        if share >= _SHARE:
            return held(BOOTSTRAP, _CLAIM, subject="", **numbers)
        words = (
            f"over {samples} samples of {len(self._looks)} steps, the value of the next state is multiplied by zero "
            f"for {percent(1 - share)}"
        )
        return broken(BOOTSTRAP, _CLAIM, words, subject="", **numbers)
