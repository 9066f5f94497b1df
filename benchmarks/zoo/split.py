"""Which families are for work and which are sealed: nobody mends on the sealed half, and a release draws it anew."""

import hashlib
from collections.abc import Iterable


def sealed_families(families: Iterable[str], release: str, *, worked_on: frozenset[str]) -> frozenset[str]:
    """Return the sealed half of the families, drawn by a hash of each name and the release.

    Args:
        worked_on: Families with a program whose misses or false alarms were read in this release. They cannot be
            sealed, so the sealed part is less than a half where most families were worked on.
    """
    names = set(families)
    drawn = sorted(names - worked_on, key=lambda family: hashlib.sha256(f"{family} {release}".encode()).hexdigest())
    return frozenset(drawn[: len(names) // 2])
