"""Do random numbers differ from step to step? A generator that is seeded in every step repeats them."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import torch

from .check_result import CheckResult, broken, held

REPEATED = "random_numbers_differ"
_CLAIM = "the random numbers of a step are not those of an earlier step"
_STATES = 3


def random_numbers_differ(steps: Sequence[tuple[bytes, ...]]) -> Iterator[CheckResult]:
    """Compare the random generator's states at two steps.

    Args:
        steps: For each step its checksums: as the step began, before the first forward, and after that forward.
    """
    if len(steps) < 2 or min(map(len, steps)) < _STATES:
        return
    (_, first, _), (before, begun, after) = steps[0], steps[-1]
    is_used = not before == begun == after  # what nobody draws from stays as it is
    if is_used and begun == first:
        words = "before the first forward of two steps the random generator is in the very same state"
        yield broken(REPEATED, _CLAIM, words)
    elif is_used:
        yield held(REPEATED, _CLAIM)


def generator_state() -> bytes:
    """Return a checksum of the state of the host's random generator; a device's is left where it is."""
    return blake2b(torch.get_rng_state().numpy().tobytes(), digest_size=8).digest()
