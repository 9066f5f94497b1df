"""How ranks are compared: each posts a message per step, rank 0 reads all of them and reports the differences.

The board is a key-value store that connects the processes. No collective is called and no rank waits for another: a
message that is not there yet is looked for again at the next step.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from typing import Final, ParamSpec, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Json
from ..kernels.fingerprints import PROJECTIONS
from ..quantities.step_clock import PHASES

_Numbers = NDArray[np.float64]
#: Names of the times, in seconds a step.
TIMES: Final = (*PHASES, "communication")
_HEAD: Final = 6


@dataclass(frozen=True, slots=True, eq=False)
class RankMessage:
    """One rank's numbers of one step; NaN for what the rank does not know.

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
        written: How many weights something other than a step has changed since the last message.
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
    written: float = 0.0

    def encode(self) -> bytes:
        """Encode the message as bytes."""
        head = np.array([self.structure, self.batch, self.random_state, self.clip, self.written, self.parameters.size])
        tables = (self.parameters, self.gradients, self.reduced.reshape(-1), self.local.reshape(-1))
        return np.concatenate([head, self.times, *tables]).astype("<f8").tobytes()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the message from bytes."""
        numbers = np.frombuffer(data, "<f8").astype(np.float64)
        head, count = numbers[:_HEAD].tolist(), int(numbers[_HEAD - 1])
        cuts = np.cumsum([_HEAD, len(TIMES), count, count, PROJECTIONS * count])
        _, times, parameters, gradients, reduced, local = np.split(numbers, cuts)
        structure, batch, random_state, clip, written = head[: _HEAD - 1]
        return cls(
            structure=structure,
            batch=batch,
            random_state=random_state,
            clip=clip,
            times=times,
            parameters=parameters,
            gradients=gradients,
            reduced=reduced.reshape(count, PROJECTIONS),
            local=local.reshape(count, PROJECTIONS),
            written=written,
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


_MOST_SITES: Final = 16
_Messages = Sequence[RankMessage | None]


def rank_facts(step: int, messages: _Messages, sites: Sequence[str]) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield kind and data of every event that the messages of one step make.

    Args:
        messages: One a rank, None of a rank that was silent; the first is the reader's own.
        sites: Of the parameters, in the order of the messages' arrays.
    """
    own = messages[0]
    if own is None or sum(message is not None for message in messages) < 2:
        return
    alike = [message if message is not None and message.structure == own.structure else None for message in messages]
    for quantity in ("parameters", "gradients"):
        tables = [None if message is None else getattr(message, quantity) for message in alike]
        wrote: list[Json] = [None if message is None else _json(message.written) for message in messages]
        yield from _checksums(step, quantity, [_number(table) for table in tables], _apart(tables, sites), wrote)
    yield from _checksums(
        step, "local_gradients", [None if message is None else _number(message.local) for message in alike]
    )
    for quantity in ("batch", "random_state"):
        yield from _checksums(step, quantity, [_finite(message, quantity) for message in messages])
    yield from _reduction(step, alike, sites)
    times: dict[str, Json] = {
        name: [None if message is None else _json(message.times[at]) for message in messages]
        for at, name in enumerate(TIMES)
    }
    yield "rank_times", {"at": step, **times}


def _apart(tables: Sequence[_Numbers | None], sites: Sequence[str]) -> list[str]:
    """Return the sites whose checksums are not the same on all ranks."""
    known = [table for table in tables if table is not None]
    first = known[0]
    differs = np.any([~np.isclose(first, table, rtol=0.0, atol=0.0, equal_nan=True) for table in known], axis=0)
    return [sites[row] for row in np.flatnonzero(differs).tolist()]


def _checksums(
    step: int, quantity: str, values: Sequence[float | None], apart: Sequence[str] = (), wrote: Sequence[Json] = ()
) -> Iterator[tuple[str, dict[str, Json]]]:
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return
    by_rank: list[Json] = [None if value is None else f"{int(value):014x}" for value in values]
    yield (
        "rank_checksums",
        {
            "quantity": quantity,
            "at": step,
            "by_rank": by_rank,
            "is_equal": len(set(known)) == 1,
            "odd": _odd(values),
            "sites": list(apart[:_MOST_SITES]),
            "wrote": list(wrote),
        },
    )


def _odd(values: Sequence[float | None]) -> list[Json]:
    """Return the ranks that differ from the most frequent value; none where no value is most frequent."""
    counts = Counter(value for value in values if value is not None).most_common(2)
    if len(counts) < 2 or counts[0][1] == counts[1][1]:
        return []
    return [rank for rank, value in enumerate(values) if value is not None and value != counts[0][0]]


def _reduction(step: int, messages: _Messages, sites: Sequence[str]) -> Iterator[tuple[str, dict[str, Json]]]:
    known = [message for message in messages if message is not None]
    own = messages[0]
    if own is None or len(known) < len(messages) or any(np.isnan(message.local).all() for message in known):
        return
    found = reduction_of(own.reduced / own.clip, [message.local for message in known])
    if found is None:
        return
    others: list[Json] = [None] * len(known)
    for rank, message in enumerate(known):
        if (
            _number(message.gradients) != _number(own.gradients)
            and (rank_weights := _weights(message, known)) is not None
        ):
            others[rank] = rank_weights
    sizes = [float(np.linalg.norm(np.nan_to_num(message.local))) for message in known]
    yield (
        "rank_reduction",
        {
            "at": step,
            "ranks": len(messages),
            "weights": [_json(weight) for weight in found.weights],
            "residual": _json(found.residual),
            "sites": [sites[row] for row in found.off],
            "weights_elsewhere": others,
            "local_sizes": [_json(size) for size in sizes],
            "clip": _json(own.clip),
        },
    )


def _weights(message: RankMessage, all_ranks: Sequence[RankMessage]) -> list[Json] | None:
    found = reduction_of(message.reduced / message.clip, [other.local for other in all_ranks])
    return None if found is None else [_json(weight) for weight in found.weights]


def _number(table: _Numbers | None) -> float | None:
    """Return a checksum of a table; None where none of it is known."""
    return None if table is None or not table.size or np.isnan(table).all() else number_of(table.tobytes())


def _finite(message: RankMessage | None, quantity: str) -> float | None:
    value = None if message is None else float(getattr(message, quantity))
    return value if value is not None and np.isfinite(value) else None


def _json(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
