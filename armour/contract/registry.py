"""The table of attacks: one entry a paper, filled by the decorator on each attack's class."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from ...storage import nearest
from ..distances import Norm
from ..errors import UnknownAttack
from .attack import Attack

Asks = Literal["gradients", "logits", "decisions"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One attack of the catalogue.

    Args:
        make: Its class; takes `norm=` and the attack's own options.
        norms: The norms that it knows.
        reference: The paper.
        asks: What it asks the model for: gradients, logits, or decisions alone.
    """

    name: str
    make: type[Attack]
    norms: tuple[Norm, ...]
    reference: str
    asks: Asks = "gradients"


ATTACKS: Final[dict[str, Entry]] = {}

_Class = TypeVar("_Class", bound=type[Attack])


def attack(
    name: str, *, norms: tuple[Norm, ...], reference: str, asks: Asks = "gradients"
) -> Callable[[_Class], _Class]:
    """A decorator that enters the class into `ATTACKS`; a name taken already raises `ValueError`."""

    def enter(make: _Class) -> _Class:
        if name in ATTACKS:
            raise ValueError(f"attack {name!r} is registered by {ATTACKS[name].make.__qualname__} already")
        ATTACKS[name] = Entry(name, make, norms, reference, asks)
        make.name = name
        return make

    return enter


def make_attack(name: str, norm: Norm = "linf") -> Attack:
    """The attack of that name with its default options.

    Raises:
        UnknownAttack: There is none of that name, or it does not know the norm.
    """
    if name not in ATTACKS:
        raise UnknownAttack(f"no attack {name!r}; attacks are {', '.join(sorted(ATTACKS))}{nearest(name, ATTACKS)}")
    entry = ATTACKS[name]
    if norm not in entry.norms:
        raise UnknownAttack(f"attack {name!r} knows the norms {', '.join(entry.norms)}, got {norm!r}")
    return entry.make(norm=norm)
