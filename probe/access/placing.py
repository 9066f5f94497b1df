"""Tables of where a framework's tensors lie; what cannot be read is reported once, and absent."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias

from ..kernels import Arrays, table_of
from .tensors import Place, Tensor, Unsupported

_ABSENT: Place = (0, 0, 0)
#: Addresses, sizes and dtype codes, one each a tensor; 0 where there is none.
Columns: TypeAlias = tuple[list[int], list[int], list[int]]


@dataclass(frozen=True, slots=True)
class Away:
    """How tensors on a device are told from others.

    Args:
        is_any: Whether one of these is there.
        part: What lies there of a tensor; None of one that lies on the host. Raises `Unsupported`.
        code: The dtype code that its values have on the host.
    """

    is_any: Callable[[Sequence[Tensor | None]], bool]
    part: Callable[[Tensor], Tensor | None]
    code: Callable[[Tensor], int]


class Placing:
    """Makes the tables of one model.

    Args:
        place: Where the values of a tensor lie, and what keeps them there; raises `Unsupported`.
        names: The sites of the parameters, one for each row; may grow.
        report: Called once for a parameter of which something cannot be recorded, with its site and the reason.
        away: How tensors on a device are told from others, where a framework has such.
        at_once: The columns of a table of tensors that lie plainly on the host; None where one of them does not.
    """

    def __init__(
        self,
        place: Callable[[Tensor], tuple[Place, object]],
        names: Sequence[str],
        report: Callable[[str, str], None],
        away: Away | None = None,
        at_once: Callable[[Sequence[Tensor | None]], Columns | None] | None = None,
    ) -> None:
        self._place_of, self._names, self._report, self._away = place, names, report, away
        self._at_once = at_once
        self._reported: set[str] = set()
        self._known: dict[str, tuple[Columns, Arrays]] = {}
        self._several: tuple[tuple[str | Columns, ...], Mapping[str, Arrays]] = (), {}

    def table(self, tensors: Sequence[Tensor | None], what: str = "") -> Arrays:
        """The table, a row a tensor, which keeps them unless they are named.

        Args:
            what: They are, and the model keeps them: a table is made once for all steps at which the same of them are
                there, and tells where they lie now.
        """
        columns = None if self._at_once is None else self._at_once(tensors)
        if columns is None:
            return self._table(tensors)
        known = self._known.get(what)
        if known is None or known[0] != columns:
            known = self._known[what] = (columns, _moved(known, columns) or table_of(list(zip(*columns, strict=True))))
        return known[1] if what else replace(known[1], owners=tensors)

    def tables(self, named: Mapping[str, Sequence[Tensor | None]]) -> Mapping[str, Arrays]:
        """The tables of several quantities that the model keeps; the same object again while none of them has moved."""
        columns = None if self._at_once is None else self._at_once([*chain.from_iterable(named.values())])
        if columns is None or self._several[0] != (*named, columns):
            tables = {name: self.table(tensors, f"optimizer/{name}") for name, tensors in named.items()}
            if columns is None:
                return tables
            self._several = (*named, columns), tables
        return self._several[1]

    def _table(self, tensors: Sequence[Tensor | None]) -> Arrays:
        owners: list[object] = []
        remote: dict[int, Tensor] = {}
        away = self._away.is_any(tensors) if self._away is not None else False
        places = [
            _ABSENT if one is None else self._place(number, one, owners, remote if away else None)
            for number, one in enumerate(tensors)
        ]
        table = table_of(places, owners)
        return replace(table, remote=remote, bring=self._place_of) if remote else table

    def _place(self, number: int, tensor: Tensor, owners: list[object], remote: dict[int, Tensor] | None) -> Place:
        try:
            if remote is not None and self._away is not None and (held := self._away.part(tensor)) is not None:
                remote[number] = held
                return (0, int(held.numel()), self._away.code(held))
            place, owner = self._place_of(tensor)
        except Unsupported as error:
            name = self._names[number]
            if name not in self._reported:
                self._reported.add(name)
                self._report(name, str(error))
            return _ABSENT
        owners.append(owner)
        return place


def _moved(known: tuple[Columns, Arrays] | None, columns: Columns) -> Arrays | None:
    """The table that is known, of the new addresses; None where sizes, dtypes or which are there have changed."""
    if known is None or known[0][1:] != columns[1:]:
        return None
    before, now = known[0][0], columns[0]
    if not (all(before) and all(now)) and list(map(bool, before)) != list(map(bool, now)):
        return None
    known[1].move_to(now)
    return known[1]
