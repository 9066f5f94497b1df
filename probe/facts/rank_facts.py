"""What the messages of all ranks say together: which differ where they must not, and what the reduction did."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Json
from .rank_message import TIMES, RankMessage, number_of
from .reduction import reduction_of

_MOST_SITES: Final = 16
_Numbers = NDArray[np.float64]
_Messages = Sequence[RankMessage | None]


def rank_facts(step: int, messages: _Messages, sites: Sequence[str]) -> Iterator[tuple[str, dict[str, Json]]]:
    """Kind and data of every event that the messages of one step make.

    Args:
        messages: One a rank, None of a rank that was silent; the first is the reader's own.
        sites: Of the parameters, in the order of the messages' arrays.
    """
    own = messages[0]
    if own is None or sum(one is not None for one in messages) < 2:
        return
    alike = [one if one is not None and one.structure == own.structure else None for one in messages]
    for quantity in ("parameters", "gradients"):
        tables = [None if one is None else getattr(one, quantity) for one in alike]
        yield from _checksums(step, quantity, [_number(table) for table in tables], _apart(tables, sites))
    yield from _checksums(step, "local_gradients", [None if one is None else _number(one.local) for one in alike])
    for quantity in ("batch", "random_state"):
        yield from _checksums(step, quantity, [_finite(one, quantity) for one in messages])
    yield from _reduction(step, alike, sites)
    times: dict[str, Json] = {
        name: [None if one is None else _json(one.times[at]) for one in messages] for at, name in enumerate(TIMES)
    }
    yield "rank_times", {"at": step, **times}


def _apart(tables: Sequence[_Numbers | None], sites: Sequence[str]) -> list[str]:
    """The sites whose checksums are not the same on all ranks."""
    known = [table for table in tables if table is not None]
    first = known[0]
    differs = np.any([~np.isclose(first, table, rtol=0.0, atol=0.0, equal_nan=True) for table in known], axis=0)
    return [sites[place] for place in np.flatnonzero(differs).tolist()]


def _checksums(
    step: int, quantity: str, values: Sequence[float | None], apart: Sequence[str] = ()
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
        },
    )


def _odd(values: Sequence[float | None]) -> list[Json]:
    """The ranks that differ from the most frequent value; none where no value is more frequent than any other."""
    counts = Counter(value for value in values if value is not None).most_common(2)
    if len(counts) < 2 or counts[0][1] == counts[1][1]:
        return []
    return [rank for rank, value in enumerate(values) if value is not None and value != counts[0][0]]


def _reduction(step: int, messages: _Messages, sites: Sequence[str]) -> Iterator[tuple[str, dict[str, Json]]]:
    known = [one for one in messages if one is not None]
    own = messages[0]
    if own is None or len(known) < len(messages) or any(np.isnan(one.local).all() for one in known):
        return
    found = reduction_of(own.reduced / own.clip, [one.local for one in known])
    if found is None:
        return
    others: list[Json] = [None] * len(known)
    for rank, one in enumerate(known):
        if _number(one.gradients) != _number(own.gradients) and (its := _weights(one, known)) is not None:
            others[rank] = its
    sizes = [float(np.linalg.norm(np.nan_to_num(one.local))) for one in known]
    yield (
        "rank_reduction",
        {
            "at": step,
            "ranks": len(messages),
            "weights": [_json(weight) for weight in found.weights],
            "residual": _json(found.residual),
            "sites": [sites[place] for place in found.off],
            "weights_elsewhere": others,
            "local_sizes": [_json(size) for size in sizes],
            "clip": _json(own.clip),
        },
    )


def _weights(message: RankMessage, all_ranks: Sequence[RankMessage]) -> list[Json] | None:
    found = reduction_of(message.reduced / message.clip, [one.local for one in all_ranks])
    return None if found is None else [_json(weight) for weight in found.weights]


def _number(table: _Numbers | None) -> float | None:
    """A checksum of a table; None where nothing of it is known."""
    return None if table is None or not table.size or np.isnan(table).all() else number_of(table.tobytes())


def _finite(message: RankMessage | None, quantity: str) -> float | None:
    value = None if message is None else float(getattr(message, quantity))
    return value if value is not None and np.isfinite(value) else None


def _json(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
