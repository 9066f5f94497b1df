"""How ranks are compared: each posts a message per step, rank 0 reads all of them, `rank_comparison.py` compares them.

The board is a key-value store that connects the processes. No collective is called and no rank waits for another: a
message that is not there yet is looked for again at the next step.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from typing import Final, ParamSpec, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..kernels.fingerprints import PROJECTIONS
from ..quantities.step_clock import PHASES

_Numbers = NDArray[np.float64]
#: Flags of a parameter: all its elements were equal at the start; a buffer; a shard of ranks that read different data;
#: so few bits that a small step may leave it where it is.
CONSTANT, BUFFER, OF_DATA, COARSE = 1, 2, 4, 8
#: Names of the times, in seconds a step.
TIMES: Final = (*PHASES, "communication")
_HEAD: Final = 10
#: Numbers of a parameter in a message.
_TABLES: Final = 5 + 2 * PROJECTIONS


@dataclass(frozen=True, slots=True, eq=False)
class RankMessage:
    """One rank's numbers of one step; NaN for what the rank does not know.

    Args:
        batch: Checksum of what the model was called with.
        random_state: Checksum of the generator as the forward began.
        clip: Factor by which the gradients were shortened, 1 without.
        times: `(7,)` seconds a step in the order of `TIMES`, the mean since the last message.
        parameters: `(n,)` checksums of the weights before the step.
        gradients: `(n,)` checksums of the gradients that the optimizer is about to apply.
        reduced: `(n, 2)` their projections.
        local: `(n, 2)` projections of what this rank's backward passes found.
        keys: `(n,)` one number for everything of which two ranks may hold copies: a name, a shape and, of a shard, its
            place; buffers come behind the parameters.
        declared: `(n,)` a number of the ranks that are said to hold copies, by a wrapper or by placements.
        flags: `(n,)` sums of `CONSTANT`, `BUFFER`, `OF_DATA` and `COARSE`.
        written: How many weights something other than a step has changed since the last message.
        part: A number of the part of the model that the rank holds by its placements.
        forwards, passes: Training forwards until now, and the backward passes of the steps.
        draws: Whether random numbers were drawn between the first forward and the step; 0 or 1.
        settings: A number of the optimizers' options.
        names: Of the parameters and buffers; empty where they are those of the message before.
    """

    batch: float
    random_state: float
    clip: float
    times: _Numbers
    parameters: _Numbers
    gradients: _Numbers
    reduced: _Numbers
    local: _Numbers
    keys: _Numbers
    declared: _Numbers
    flags: _Numbers
    written: float = 0.0
    part: float = 0.0
    forwards: float = 0.0
    passes: float = 0.0
    draws: float = 0.0
    settings: float = 0.0
    names: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """Encode the message as bytes."""
        head = (self.batch, self.random_state, self.clip, self.written)
        more = (self.part, self.forwards, self.passes, self.draws, self.settings, self.keys.size)
        tables = (self.parameters, self.gradients, self.keys, self.declared, self.flags, self.reduced, self.local)
        numbers = np.concatenate([np.array([*head, *more]), self.times, *(table.reshape(-1) for table in tables)])
        return numbers.astype("<f8").tobytes() + "\n".join(self.names).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the message from bytes."""
        head = np.frombuffer(data, "<f8", _HEAD).tolist()
        batch, random_state, clip, written, part, forwards, passes, draws, settings, size = head
        count = int(size)
        numbers = np.frombuffer(data, "<f8", _HEAD + len(TIMES) + _TABLES * count)[_HEAD:].astype(np.float64)
        names = data[(_HEAD + numbers.size) * 8 :].decode()
        cuts = np.cumsum([len(TIMES), count, count, count, count, count, PROJECTIONS * count])
        times, parameters, gradients, keys, declared, flags, reduced, local = np.split(numbers, cuts)
        return cls(
            batch=batch,
            random_state=random_state,
            clip=clip,
            times=times,
            parameters=parameters,
            gradients=gradients,
            reduced=reduced.reshape(count, PROJECTIONS),
            local=local.reshape(count, PROJECTIONS),
            keys=keys,
            declared=declared,
            flags=flags,
            written=written,
            part=part,
            forwards=forwards,
            passes=passes,
            draws=draws,
            settings=settings,
            names=tuple(names.split("\n")) if names else (),
        )


def number_of(content: bytes) -> float:
    """Return 53 bits of a checksum, which float64 keeps."""
    return float(int.from_bytes(blake2b(content, digest_size=8).digest(), "little") >> 11)


_log = logging.getLogger(__name__)
_boards = count()
#: Steps for which rank 0 looks for a message; then the rank counts as silent. Our choice.
_MOST_LOOKS: Final = 20


_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


class KeyValueStore(Protocol):
    """The key-value store that connects the processes of torch.distributed."""

    def set(self, key: str, value: bytes, /) -> object:
        """Store a value."""

    def get(self, key: str, /) -> bytes:
        """Return the value of a key, once it is there."""

    def check(self, keys: list[str], /) -> bool:
        """Return whether all keys are there."""

    def delete_key(self, key: str, /) -> object:
        """Delete a key."""


class Board:
    """The message board of one training; every rank must make its boards equally often, and in the same order.

    Args:
        store: What torch.distributed connects its processes by, or anything with `set`, `get`, `check`, `delete_key`.
        ranks: How many pin messages up.
    """

    def __init__(self, store: KeyValueStore, rank: int, ranks: int) -> None:
        self._store, self._rank, self._ranks = store, rank, ranks
        self._name = f"mindscope/board/{next(_boards)}"
        self._waiting: dict[int, int] = {}
        self._is_gone = False

    def post(self, step: int, message: bytes) -> None:
        """Post the message of this rank for the others."""
        if not self._is_gone and self._rank < self._ranks:
            self._try(self._store.set, self._key(step, self._rank), message)
            if self._rank == 0:
                self._waiting[step] = _MOST_LOOKS

    def read(self) -> dict[int, list[bytes | None]]:
        """Return the messages of all ranks by step, once each: of steps that are complete or have timed out."""
        found: dict[int, list[bytes | None]] = {}
        for step in [*self._waiting]:
            self._waiting[step] -= 1
            keys = [self._key(step, rank) for rank in range(self._ranks)]
            if self._try(self._store.check, keys) or self._waiting[step] < 0:
                del self._waiting[step]
                found[step] = [self._take(key) for key in keys]
        return found

    @property
    def is_waiting(self) -> bool:
        """Whether messages of others are still to come."""
        return bool(self._waiting) and not self._is_gone

    def hurry(self) -> None:
        """Make the next read return whatever is there."""
        self._waiting = dict.fromkeys(self._waiting, 0)

    def _take(self, key: str) -> bytes | None:
        if not self._try(self._store.check, [key]):
            return None
        message = self._try(self._store.get, key)
        self._try(self._store.delete_key, key)
        return None if message is None else bytes(message)

    def _try(
        self, work: Callable[_Arguments, _Answer], *arguments: _Arguments.args, **options: _Arguments.kwargs
    ) -> _Answer | None:
        """Call the store and return its answer; None once the connection is lost."""
        if self._is_gone:
            return None
        try:
            return work(*arguments, **options)
        except RuntimeError as error:  # DistError of torch and similar errors
            self._is_gone = True
            _log.warning("ranks are not compared any more, the store between them is gone: %s", error)
            return None

    def _key(self, step: int, rank: int) -> str:
        return f"{self._name}/{step}/{rank}"


_MOST_EXCLUDED: Final = 4
#: A parameter whose projections are off by more than this share of the whole is named. Rounding of a reduction in
#: float32 stays below 1e-5, in bfloat16 below 2e-2 of the parameter's own (our choice).
_OFF: Final = 1e-2
_SMALLEST: Final = 1e-200


@dataclass(frozen=True, slots=True)
class Reduction:
    """How a reduced gradient is composed of local ones.

    Args:
        weights: One a rank: how much of its gradient is in the result. 1/n each is a mean, 1 each a sum, 0 a rank that
            was dropped; 1 for the rank itself and 0 for the others says that nothing was reduced.
        residual: What these weights leave unexplained, as a share of the result.
        off: Places of the parameters that they do not explain, worst first.
    """

    weights: tuple[float, ...]
    residual: float
    off: tuple[int, ...]


def reduction_of(reduced: _Numbers, local: Sequence[_Numbers]) -> Reduction | None:
    """Find the weights that explain the result best, by least squares over the projections of all parameters.

    A parameter that is far off is left out of the fit, up to four of them, so that wrong bits in one do not hide what
    the others say.

    Args:
        reduced: `(n, 2)` projections of the result on one rank.
        local: `(n, 2)` projections of what each rank gave.

    Returns:
        None where there are fewer equations than ranks, or the result is as good as zero.
    """
    columns = np.stack(local, axis=-1)
    usable: NDArray[np.bool_] = np.isfinite(np.concatenate([columns, reduced[:, :, None]], axis=2)).all(axis=(1, 2))
    size = float(np.linalg.norm(reduced[usable]))
    if columns[usable].size < columns.shape[2] ** 2 or size < _SMALLEST:
        return None
    trusted, off = usable.copy(), []
    for _ in range(_MOST_EXCLUDED + 1):
        weights = np.linalg.lstsq(
            columns[trusted].reshape(-1, columns.shape[2]), reduced[trusted].reshape(-1), rcond=1e-9
        )[0]
        rest = np.where(usable[:, None], reduced - columns @ weights, 0.0)
        by_parameter = np.where(trusted, np.linalg.norm(rest, axis=1) / size, 0.0)
        worst = int(by_parameter.argmax())
        if by_parameter[worst] <= _OFF or trusted.sum() * 2 <= len(local) + 2:
            break
        trusted[worst] = False
        off.append(worst)
    return Reduction(tuple(weights.tolist()), float(np.linalg.norm(rest) / size), tuple(off[:_MOST_EXCLUDED]))
