"""Sets of attacks that have proved themselves together."""

from typing import Final, Literal

from ...storage import nearest
from ..errors import UnknownAttack

Suite = Literal["quick", "standard"]

#: `quick` is a smoke test. `standard` is the parameter-free ensemble with its published step and query counts, each
#: attack on what the ones before it left (Croce and Hein 2020, arXiv:2003.01690, section 5).
SUITES: Final[dict[str, tuple[str, ...]]] = {
    "quick": ("fgsm", "pgd"),
    "standard": ("apgd-ce", "apgd-t", "fab-t", "square"),
}


def suite_named(name: str) -> tuple[str, ...]:
    """The names of its attacks.

    Raises:
        UnknownAttack: There is no such suite; the message lists the known ones.
    """
    if name not in SUITES:
        raise UnknownAttack(f"no suite {name!r}; suites are {', '.join(SUITES)}{nearest(name, SUITES)}")
    return SUITES[name]
