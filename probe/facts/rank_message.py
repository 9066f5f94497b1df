"""What one rank tells the others of a step: checksums, projections of its gradients, and where its time went."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from ..kernels.projection import PROJECTIONS
from ..quantities.step_time import PHASES

_Numbers = NDArray[np.float64]
#: Names of the times, in seconds a step.
TIMES: Final = (*PHASES, "communication")
_HEAD: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class RankMessage:
    """One rank's numbers of one step; NaN where it could not tell.

    Args:
        structure: A number of the names that the arrays are in order of; only equal ones are compared.
        batch: Checksum of what the model was called with.
        random_state: Checksum of the generator as the forward began.
        clip: Factor by which the gradients were shortened, 1 without.
        times: `(7,)` seconds a step in the order of `TIMES`, the mean since the last message.
        parameters: `(n,)` checksums of the weights before the step.
        gradients: `(n,)` checksums of the gradients that the optimizer is about to apply.
        reduced: `(n, 2)` their projections.
        local: `(n, 2)` projections of what this rank's backward passes found.
    """

    structure: float
    batch: float
    random_state: float
    clip: float
    times: _Numbers
    parameters: _Numbers
    gradients: _Numbers
    reduced: _Numbers
    local: _Numbers

    def encode(self) -> bytes:
        """The message as bytes."""
        head = np.array([self.structure, self.batch, self.random_state, self.clip, self.parameters.size])
        tables = (self.parameters, self.gradients, self.reduced.reshape(-1), self.local.reshape(-1))
        return np.concatenate([head, self.times, *tables]).astype("<f8").tobytes()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The message that these bytes are."""
        numbers = np.frombuffer(data, "<f8").astype(np.float64)
        head, count = numbers[:_HEAD].tolist(), int(numbers[_HEAD - 1])
        cuts = np.cumsum([_HEAD, len(TIMES), count, count, PROJECTIONS * count])
        _, times, parameters, gradients, reduced, local = np.split(numbers, cuts)
        tables = reduced.reshape(count, PROJECTIONS), local.reshape(count, PROJECTIONS)
        structure, batch, random_state, clip = head[: _HEAD - 1]
        return cls(structure, batch, random_state, clip, times, parameters, gradients, *tables)


def number_of(content: bytes) -> float:
    """53 bits of a checksum, which float64 keeps."""
    return float(int.from_bytes(blake2b(content, digest_size=8).digest(), "little") >> 11)
