"""What the ranks' messages of one step show: copies that differ, how gradients were reduced, ranks that stand still."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Json
from ..recording.first_step import finite_or_none
from .rank_agreement import Agreement, RankTables, movement, tables_of
from .rank_facts import BUFFER, TIMES, RankMessage, number_of, reduction_of

_Numbers = NDArray[np.float64]
_Columns = NDArray[np.int64]
_Members = tuple[int, ...]
_Messages = Sequence[RankMessage | None]
Fact = tuple[str, dict[str, Json]]
_MOST_SITES: Final = 16
#: Weights of one rank stand still over this many exchanges in a row, or over one after this many steps, before it is
#: told: one step may be too small to change a float32 (our choice).
_STILL, _STEPS_STILL = 2, 4
#: Local gradients that differ by less than this share are the same; rounding in float32 gives 1e-6.
_SAME: Final = 1e-4


class RankComparison:
    """Compares the messages of all ranks, step by step; it is kept by the rank that reads them."""

    def __init__(self) -> None:
        self._agreement = Agreement()
        self._names: dict[int, tuple[str, ...]] = {}
        self._site_of: dict[float, str] = {}
        self._before: RankTables | None = None
        self._before_step = 0
        self._still: Counter[tuple[int, str]] = Counter()
        self._counts: list[tuple[float, float] | None] = []

    def facts(self, step: int, messages: _Messages) -> Iterator[Fact]:
        """Yield kind and data of every event that the messages of one step make.

        Args:
            messages: One a rank, None of a rank that was silent; the first is the reader's own.
        """
        if messages[0] is None or sum(message is not None for message in messages) < 2:
            return
        self._learn_names(messages)
        tables = tables_of(messages)
        self._agreement.learn(tables)
        sets = self._agreement.sets()
        is_buffer = tables.is_flagged(BUFFER)
        weights = {members: columns[~is_buffer[columns]] for members, columns in sets.items()}
        buffers = {members: columns[is_buffer[columns]] for members, columns in sets.items()}
        yield from self._checksums(step, "parameters", tables.parameters, weights, messages)
        yield from self._checksums(step, "buffers", tables.parameters, buffers, messages)
        yield from self._checksums(step, "gradients", tables.gradients, weights, messages)
        local = [None if message is None else _number(message.local) for message in messages]
        yield from _values(step, "local_gradients", local)
        parts: list[Json] = [*self._agreement.parts(tables, _parts_said(messages))]
        yield from _values(step, "random_state", [_finite(message, "random_state") for message in messages], parts)
        for kind, data in _values(step, "batch", [_finite(message, "batch") for message in messages], parts):
            yield kind, data | {"same_local": _are_local_gradients_close(messages, parts)}
        for members, columns in weights.items():
            yield from self._reduction(step, members, columns, tables, messages)
        yield from self._ranks_that_stand_still(step, tables)
        yield from self._forwards_without_backward(step, messages)
        times: dict[str, Json] = {
            name: [None if message is None else finite_or_none(message.times[at]) for message in messages]
            for at, name in enumerate(TIMES)
        }
        yield "rank_times", {"at": step, **times}

    def _learn_names(self, messages: _Messages) -> None:
        for rank, message in enumerate(messages):
            if message is not None and message.names and message.names != self._names.get(rank):
                self._names[rank] = message.names
                self._site_of.update(zip(message.keys.tolist(), message.names, strict=True))

    def _sites(self, keys: _Numbers) -> list[str]:
        return [self._site_of.get(key, "") for key in keys.tolist()]

    def _checksums(
        self,
        step: int,
        quantity: str,
        table: _Numbers,
        sets: dict[_Members, _Columns],
        messages: _Messages,
    ) -> Iterator[Fact]:
        """Yield an event for every set of ranks that do not agree, and one for all that do."""
        agreeing: dict[int, list[float]] = {}
        for members, columns in sets.items():
            present = [rank for rank in members if messages[rank] is not None]
            values = table[present][:, columns]
            is_known = ~np.isnan(values).any(axis=0)
            if len(present) < 2 or not is_known.any():
                continue
            differs = is_known & (values != values[0]).any(axis=0)
            if not differs.any():
                for rank in present:
                    agreeing.setdefault(rank, []).append(number_of(values[0, is_known].tobytes()))
                continue
            numbers: list[float | None] = [None] * len(messages)
            for rank, own in zip(present, values, strict=True):
                numbers[rank] = number_of(own[is_known].tobytes())
            more: dict[str, Json] = {
                "is_equal": False,
                "odd": _odd(numbers),
                "sites": [*self._found(self._sites_of(columns[differs]))],
                "of": int(is_known.sum()),
            }
            yield _event(step, quantity, numbers, more | _evidence(messages, present))
        if agreeing:
            numbers = [_sum_of(agreeing.get(rank)) for rank in range(len(messages))]
            yield _event(step, quantity, numbers, {"is_equal": True, "odd": [], "sites": []})

    def _sites_of(self, columns: _Columns) -> list[str]:
        return self._sites(self._agreement.keys[columns])

    def _found(self, sites: list[str]) -> list[str]:
        """Return the first sites, in the order of the model that has them."""
        places = {site: place for names in self._names.values() for place, site in enumerate(names)}
        return sorted(sites, key=lambda site: places.get(site, len(places)))[:_MOST_SITES]

    def _reduction(
        self, step: int, members: _Members, columns: _Columns, tables: RankTables, messages: _Messages
    ) -> Iterator[Fact]:
        """Yield how the reduced gradients of these ranks follow from their local ones."""
        here = [message for rank in members if (message := messages[rank]) is not None]
        columns = columns[np.argsort([self._place(site) for site in self._sites_of(columns)], kind="stable")]
        local = [tables.local[rank, columns] for rank in members]
        if None in messages or any(np.isnan(one).all() for one in local):
            return
        reduced = [tables.reduced[rank, columns] / message.clip for rank, message in zip(members, here, strict=True)]
        found = reduction_of(reduced[0], local)
        if found is None:
            return
        sites = self._sites_of(columns)
        others: list[Json] = [None] * len(members)
        misfits: list[Json] = [finite_or_none(found.residual)] * len(members)
        own = _number(tables.gradients[members[0], columns])
        for place, rank in enumerate(members):
            if _number(tables.gradients[rank, columns]) != own and (there := reduction_of(reduced[place], local)):
                others[place], misfits[place] = (
                    [finite_or_none(weight) for weight in there.weights],
                    finite_or_none(there.residual),
                )
        alike = list(_like(local, [message.batch for message in here]))
        data: dict[str, Json] = {
            "at": step,
            "ranks": len(members),
            "members": [*members],
            "weights": [finite_or_none(weight) for weight in found.weights],
            "residual": finite_or_none(found.residual),
            "residuals": misfits,
            "sites": [sites[row] for row in found.off],
            "weights_elsewhere": others,
            "local_sizes": [finite_or_none(float(np.linalg.norm(np.nan_to_num(one)))) for one in local],
            "same_batch": _is_one_batch(here),
            "same_local": len(set(alike)) == 1,
            "local_classes": [*alike],
            "clip": finite_or_none(here[0].clip),
        }
        yield "rank_reduction", data

    def _place(self, site: str) -> int:
        names = self._names.get(0, ())
        return names.index(site) if site in names else len(names)

    def _ranks_that_stand_still(self, step: int, tables: RankTables) -> Iterator[Fact]:
        """Yield the sites whose weights move on some ranks and, in spite of a gradient, not on another one."""
        before, self._before = self._before, tables
        if before is None:
            return
        moved, still = movement(tables, before)
        sites = self._sites(tables.keys)
        moving = {sites[column] for column in np.flatnonzero(moved.any(axis=0)).tolist()}
        now = {(rank, sites[column]) for rank, column in np.argwhere(still).tolist() if sites[column] in moving}
        steps, self._before_step = step - self._before_step, step
        counted = Counter({pair: self._still[pair] + (1 if steps < _STEPS_STILL else _STILL) for pair in now})
        fresh = {pair for pair, count in counted.items() if count >= _STILL > self._still[pair]}
        self._still = counted
        for rank in sorted({rank for rank, _ in fresh}):
            sites = self._found([site for other, site in fresh if other == rank])
            yield "rank_still", {"at": step, "rank": rank, "sites": [*sites], "steps": steps}

    def _forwards_without_backward(self, step: int, messages: _Messages) -> Iterator[Fact]:
        """Yield the ranks that use fewer of equally many forwards than all others, which use every one."""
        before = self._counts
        self._counts = [None if message is None else (message.forwards, message.passes) for message in messages]
        if not before or None in before or None in self._counts:
            return
        pairs = [(now, then) for now, then in zip(self._counts, before, strict=True) if now and then]
        forwards, passes = ([now[at] - then[at] for now, then in pairs] for at in (0, 1))
        unused = [rank for rank, count in enumerate(passes) if 0 < count < forwards[rank]]
        others_use_all = all(passes[rank] == count for rank, count in enumerate(forwards) if rank not in unused)
        if unused and len(unused) < len(pairs) and others_use_all and len(set(forwards)) == 1:
            yield "rank_passes", {"at": step, "ranks": [*unused], "forwards": [*forwards], "passes": [*passes]}


def _evidence(messages: _Messages, present: Sequence[int]) -> dict[str, Json]:
    """Return what tells which of the ranks that differ is the wrong one, or why they do."""
    here = [message for rank in present if (message := messages[rank]) is not None]
    return {
        "wrote": [None if message is None else finite_or_none(message.written) for message in messages],
        "forwards": [
            message.forwards if message and rank in present else None for rank, message in enumerate(messages)
        ],
        "same_settings": len({message.settings for message in here}) == 1,
        "same_batch": _is_one_batch(here),
    }


def _like(tables: Sequence[_Numbers], batches: Sequence[float]) -> Iterator[int]:
    """Yield, for every table, the place of the first one that is close to it and comes from the same batch."""
    seen: dict[float, list[int]] = {}
    for place, (table, batch) in enumerate(zip(tables, batches, strict=True)):
        firsts = seen.setdefault(batch, [])
        like = [first for first in firsts if _are_close((tables[first], table))]
        if not like:
            firsts.append(place)
        yield like[0] if like else place


def _parts_said(messages: _Messages) -> list[float]:
    return [-1.0 if message is None else message.part for message in messages]


def _is_one_batch(messages: Sequence[RankMessage]) -> bool:
    return len({message.batch for message in messages}) == 1 and bool(np.isfinite(messages[0].batch))


def _are_close(tables: Sequence[_Numbers]) -> bool:
    first = np.nan_to_num(tables[0])
    size = float(np.linalg.norm(first))
    return all(float(np.linalg.norm(np.nan_to_num(table) - first)) <= _SAME * size for table in tables)


def _are_local_gradients_close(messages: _Messages, parts: Sequence[Json]) -> bool | None:
    """Return whether ranks that read one batch find the same gradient; None where none do, or random numbers differ."""
    seen: dict[tuple[Json, float], _Numbers] = {}
    found: bool | None = None
    for part, message in zip(parts, messages, strict=True):
        if message is not None and np.isfinite(message.batch) and not np.isnan(message.local).all():
            first = seen.setdefault((part, message.batch), message.local)
            if first is not message.local:
                found = found is not False and _are_close((first, message.local))
    return None if found is False and any(message.draws for message in messages if message) else found


def _values(step: int, quantity: str, values: Sequence[float | None], parts: Sequence[Json] = ()) -> Iterator[Fact]:
    known = [value for value in values if value is not None]
    if len(known) > 1:
        more: dict[str, Json] = {"is_equal": len(set(known)) == 1, "odd": _odd(values), "sites": []}
        yield _event(step, quantity, values, more | ({"parts": [*parts]} if parts else {}))


def _event(step: int, quantity: str, values: Sequence[float | None], more: dict[str, Json]) -> Fact:
    by_rank: list[Json] = [None if value is None else f"{int(value):014x}" for value in values]
    return "rank_checksums", {"quantity": quantity, "at": step, "by_rank": by_rank, **more}


def _sum_of(values: list[float] | None) -> float | None:
    return None if values is None else values[0] if len(values) == 1 else number_of(np.array(values).tobytes())


def _odd(values: Sequence[float | None]) -> list[Json]:
    """Return the ranks that differ from the most frequent value; none where no value is most frequent."""
    counts = Counter(value for value in values if value is not None).most_common(2)
    if len(counts) < 2 or counts[0][1] == counts[1][1]:
        return []
    return [rank for rank, value in enumerate(values) if value is not None and value != counts[0][0]]


def _number(table: _Numbers) -> float | None:
    """Return a checksum of a table; None where none of it is known."""
    return None if not table.size or np.isnan(table).all() else number_of(table.tobytes())


def _finite(message: RankMessage | None, quantity: str) -> float | None:
    value = None if message is None else float(getattr(message, quantity))
    return value if value is not None and np.isfinite(value) else None
