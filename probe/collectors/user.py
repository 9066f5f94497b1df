"""Quantities that the user adds: one decorated function each."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeVar, get_args

from ...storage.errors import nearest
from ...storage.names import display_site
from .collector import COLLECTORS, Collected, Collector, Moment, SiteRows, Step
from .quantity import QUANTITIES, VALUE, Quantity, Seen

_Function = TypeVar("_Function", bound=Callable[[Any], Any])


def quantity(
    name: str, *, at: Moment = "after_step", sites: str | Sequence[str] | None = None
) -> Callable[[_Function], _Function]:
    """Puts a function among the collectors: monitors that begin from now on record what it returns.

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
    if at not in get_args(Moment):
        raise ValueError(f"quantity {name!r}: at must be one of {', '.join(get_args(Moment))}, got {at!r}")
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
        """Scalars, or rows of the sites that fit."""
        taken = self._quantity
        found = taken(Seen(step))
        if taken.sites is None:
            return {taken.name if key == VALUE[0] else f"{taken.name}/{key}": number for key, number in found.items()}
        rows = {site: (number,) for site, number in found.items() if fits(site, taken.sites)}
        return {taken.subject: SiteRows(VALUE, rows)}


def fits(site: str, patterns: Sequence[str]) -> bool:
    """Whether the site matches one of the patterns."""
    return any(fnmatchcase(display_site(site), pattern) for pattern in patterns)


def _check_name(name: str, function: Callable[[Any], Any]) -> None:
    """A cell of a notebook may be run again; anything else that takes a name twice is a mistake."""
    if not name or name.startswith("/") or name.endswith("/"):
        raise ValueError(f"quantity name {name!r} must be words, with slashes only between them")
    known = QUANTITIES.get(name)
    if known is not None and _origin(known.function) == _origin(function):
        return
    if known is not None or name in COLLECTORS:
        raise ValueError(f"there is a collector {name!r} already; choose another name{nearest(name, ())}")


def _origin(function: Callable[[Any], Any]) -> tuple[str, str]:
    return getattr(function, "__module__", ""), getattr(function, "__qualname__", repr(function))
