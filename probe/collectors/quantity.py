"""What a user's quantity is, what its function is shown of a step, and what it may return."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..access.quiet import same_random_numbers
from .collector import Moment, Step

#: The statistic of a quantity that is one number.
VALUE: Final = ("value",)

_ENGINE_RANDOM: Final = f"{__name__.partition('.probe.')[0]}.framework.random"


@dataclass(frozen=True, slots=True)
class Quantity:
    """One function of the user's.

    Args:
        function: Takes a tensor (`forward`, `backward`) or a `Seen` (`before_step`, `after_step`).
        sites: Shell globs over sites; None for a quantity of the whole step.
    """

    name: str
    function: Callable[[Any], Any]
    at: Moment
    sites: tuple[str, ...] | None

    @property
    def subject(self) -> str:
        """Where numbers of sites are recorded."""
        return f"quantity/{self.name}"

    def __call__(self, shown: Any) -> dict[str, float]:
        """The numbers by their names, `value` for a single one; nothing for None.

        Random numbers that the function draws on the host are drawn by nobody else again: generators are put back.

        Raises:
            TypeError: The function returned something else than a number, a mapping of numbers or None.
        """
        with _unnoticed():
            found = self.function(shown)
        if found is None:
            return {}
        named = found if isinstance(found, Mapping) else {VALUE[0]: found}
        try:
            return {str(key): float(value) for key, value in named.items()}
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"quantity {self.name!r} must return a number or a mapping of names to numbers, "
                f"got {type(found).__name__}: {error}"
            ) from None


#: The user's quantities by name; those of forward and backward are called by hooks, the others by their collectors.
QUANTITIES: Final[dict[str, Quantity]] = {}


class Seen:
    """What the function of a quantity of the whole step sees; arrays are read-only.

    Attributes:
        number: Of the step, from 0.
        loss: Where the backward pass started; None when it was not found, or lies on a device that is not waited for.
        learning_rates: One a group of every optimizer.
    """

    def __init__(self, step: Step) -> None:
        self.number = step.number
        self.loss = None if callable(step.loss) else step.loss
        self.learning_rates = step.view.learning_rates()
        self._view = step.view

    @cached_property
    def weights(self) -> dict[str, NDArray[Any]]:
        """The parameters as they are at this moment, by site."""
        return self._of("weight")

    @cached_property
    def gradients(self) -> dict[str, NDArray[Any]]:
        """Their gradients as the optimizer gets them, by site, where there are any."""
        return self._of("gradient")

    def _of(self, subject: str) -> dict[str, NDArray[Any]]:
        return {site: _read_only(array) for site, array in self._view.arrays(subject)}


def _read_only(array: NDArray[np.generic]) -> NDArray[np.generic]:
    shown = array.view()
    shown.flags.writeable = False
    return shown


@contextmanager
def _unnoticed() -> Iterator[None]:
    """Whatever draws random numbers on the host inside, the training goes on with those that were next."""
    torch, engine = sys.modules.get("torch"), sys.modules.get(_ENGINE_RANDOM)
    of_torch = torch.get_rng_state() if torch is not None else None
    of_engine = engine.get_state() if engine is not None else None
    with same_random_numbers():
        try:
            yield
        finally:
            if torch is not None:
                torch.set_rng_state(of_torch)
            if engine is not None:
                engine.set_state(of_engine)
