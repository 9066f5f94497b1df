"""Quantities of the user's own: functions of a tensor that are called where the configuration names them."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Any, Final, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from ...storage.errors import nearest
from ...storage.metric_series import display_site
from ..aside import same_random_numbers
from .collector import COLLECTORS, Collected, Collector, SiteRows, Stage, Step

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
    at: Stage
    sites: tuple[str, ...] | None

    @property
    def subject(self) -> str:
        """Where numbers of sites are recorded."""
        return f"quantity/{self.name}"

    def __call__(self, shown: Any) -> dict[str, float]:
        """Return the numbers by their names, `value` for a single one; an empty mapping for None.

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
    """Whatever draws random numbers inside, the training goes on with those that were next."""
    engine = sys.modules.get(_ENGINE_RANDOM)
    of_engine = engine.get_state() if engine is not None else None
    with same_random_numbers():
        try:
            yield
        finally:
            if engine is not None:
                engine.set_state(of_engine)


_Function = TypeVar("_Function", bound=Callable[[Any], Any])


def quantity(
    name: str, *, at: Stage = "after_step", sites: str | Sequence[str] | None = None
) -> Callable[[_Function], _Function]:
    """Register a function as a collector: monitors that begin from now on record what it returns.

    It is due as often as the configuration's `every` says, or as `subjects: {NAME: {every: 10}}` does; a function that
    raises is switched off and reported, as any collector is; so is one that writes into the tensor that it is shown, of
    which the first of a site is a copy.

        forward, backward          called with the output of every module at the sites, or with the gradient that
                                   arrives there, detached; returns a number or a mapping of statistics to numbers:
                                   metrics `quantity/NAME/value`, `quantity/NAME/STATISTIC` of the module's site
        before_step, after_step    called with a `Seen` (number, loss, learning_rates, weights, gradients); without
                                   `sites` returns a number, recorded as the scalar NAME, or a mapping of them, scalars
                                   `NAME/KEY`; with `sites` returns a mapping of sites to numbers, metric
                                   `quantity/NAME/value` of those sites that fit

    Args:
        name: Of the quantity; may have slashes.
        at: When it is taken.
        sites: Shell globs over sites; every module by default, for `forward` and `backward`.

    Raises:
        ValueError: The name belongs to a collector, or to another function; the moment is unknown.
    """
    if at not in get_args(Stage):
        raise ValueError(f"quantity {name!r}: at must be one of {', '.join(get_args(Stage))}, got {at!r}")
    patterns = (sites,) if isinstance(sites, str) else None if sites is None else tuple(sites)
    if patterns is None and at in ("forward", "backward"):
        patterns = ("*",)

    def put(function: _Function) -> _Function:
        _check_name(name, function)
        one = QUANTITIES[name] = Quantity(name, function, at, patterns)
        is_of_step = at in ("before_step", "after_step")
        doc = function.__doc__ or f"A quantity of the user's: {getattr(function, '__name__', name)}."
        columns = () if is_of_step else VALUE
        COLLECTORS[name] = Collector(name, at, columns, doc, build=partial(UserQuantity, one) if is_of_step else None)
        return function

    return put


class UserQuantity:
    """A quantity of the user's that is taken once a step."""

    def __init__(self, taken: Quantity) -> None:
        self._quantity = taken

    def __call__(self, step: Step) -> Collected:
        """Return scalars, or rows of the sites that fit."""
        taken = self._quantity
        found = taken(Seen(step))
        if taken.sites is None:
            return {taken.name if key == VALUE[0] else f"{taken.name}/{key}": number for key, number in found.items()}
        rows = {site: (number,) for site, number in found.items() if fits(site, taken.sites)}
        return {taken.subject: SiteRows(VALUE, rows)}


def fits(site: str, patterns: Sequence[str]) -> bool:
    """Return whether the site matches one of the patterns."""
    return any(fnmatchcase(display_site(site), pattern) for pattern in patterns)


def _check_name(name: str, function: Callable[[Any], Any]) -> None:
    """Raise where a name is taken by another function; a cell of a notebook may be run again."""
    if not name or name.startswith("/") or name.endswith("/"):
        raise ValueError(f"quantity name {name!r} must be words, with slashes only between them")
    known = QUANTITIES.get(name)
    if known is not None and _origin(known.function) == _origin(function):
        return
    if known is not None or name in COLLECTORS:
        raise ValueError(f"there is a collector {name!r} already; choose another name{nearest(name, ())}")


def _origin(function: Callable[[Any], Any]) -> tuple[str, str]:
    return getattr(function, "__module__", ""), getattr(function, "__qualname__", repr(function))
