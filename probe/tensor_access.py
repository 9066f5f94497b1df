"""How hooks read a framework's tensors, and tables of where tensors lie."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from operator import attrgetter, methodcaller
from typing import Any, Final, Protocol, TypeAlias

from numpy.typing import NDArray

from .kernels import Arrays, table_of

# A framework's tensor and the object it comes with in the graph of its differentiation: frameworks are optional, so
# their types cannot be named.
Tensor: TypeAlias = Any
Node: TypeAlias = Any

#: A forward hook: `hook(module, inputs, output)`.
ForwardHook: TypeAlias = Callable[[object, object, object], None]

#: (address, size, dtype code) as the kernels take them.
Place: TypeAlias = tuple[int, int, int]

#: Tensors read from one nested value, and their largest depth. Our choice.
MOST_TENSORS: Final = 64
_DEEPEST: Final = 6


class HookHandle(Protocol):
    """A registered hook of a framework, or several."""

    def remove(self) -> object:
        """Remove the hook."""


class Unsupported(TypeError):
    """A tensor whose values do not lie in memory as plain real numbers, such as a sparse one."""


def not_plain(_tensor: Tensor) -> Place | None:
    """Return None: where the values lie needs a closer look."""
    return None


def nowhere(_tensor: Tensor) -> Tensor | None:
    """Return None: the tensor lies on the host."""
    return None


@dataclass(frozen=True, slots=True)
class Access:
    """How one framework's tensors are read.

    Args:
        kind: Their class.
        place: Where the values lie, and the object that keeps them there; raises `Unsupported`.
        is_floating: Whether the elements are floating-point.
        version: Changes when the values are changed in place.
        node: What made the tensor in the graph of differentiation; None for leaves and constants.
        before: The nodes whose results a node has used.
        is_recording: Whether differentiation is switched on here and now.
        array: The values in their own shape and order, as an array that may share their memory; raises `Unsupported`.
        is_repeated: Whether what runs is computed once more only because it was not kept; another time counts.
        needs_gradient: Whether a gradient of the tensor will be computed.
        remote: What of a tensor lies on a device that measures by itself; None of any other. Raises `Unsupported`.
        shown: The same values outside the graph, for a function of the user's; read-only where a framework has that.
        copied: The same of a copy, which may be written.
        plain: Where the values of a floating-point tensor lie, if it keeps them there itself; None of any other.
    """

    kind: type
    place: Callable[[Tensor], tuple[Place, object]]
    is_floating: Callable[[Tensor], bool]
    version: Callable[[Tensor], int]
    node: Callable[[Tensor], Node]
    before: Callable[[Node], Iterable[Node]]
    is_recording: Callable[[], bool]
    array: Callable[[Tensor], NDArray[Any]]
    is_repeated: Callable[[], bool] = bool  # never
    needs_gradient: Callable[[Tensor], bool] = attrgetter("requires_grad")
    remote: Callable[[Tensor], Tensor | None] = nowhere
    shown: Callable[[Tensor], Tensor] = methodcaller("detach")
    copied: Callable[[Tensor], Tensor] = methodcaller("copy")
    plain: Callable[[Tensor], Place | None] = not_plain


def tensors_in(value: object, access: Access) -> Iterator[tuple[str, Tensor]]:
    """Yield (path, tensor) of the first 64 floating tensors in a nested value, depth first.

    The first has the empty path: it stands for the whole. Sequences, mappings and dataclasses are entered.
    """
    found = 0
    for path, tensor in _walk("", value, access.kind, 0):
        if access.is_floating(tensor):
            yield (path if found else ""), tensor
            found += 1
            if found == MOST_TENSORS:
                return


def every_tensor_in(value: object, kind: type) -> Iterator[tuple[str, Tensor]]:
    """Yield (path, tensor) of all tensors in a nested value, whatever their dtype, depth first."""
    return _walk("", value, kind, 0)


def _walk(path: str, value: object, kind: type, depth: int) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, kind):
        yield path, value
    elif depth < _DEEPEST:
        for key, inner in _items(value):
            yield from _walk(f"{path}[{key}]", inner, kind, depth + 1)


def _items(value: object) -> Iterable[tuple[object, object]]:
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list | tuple):
        return enumerate(value)
    if isinstance(value, Mapping):
        return value.items()
    names = getattr(value, "__dataclass_fields__", ())
    return ((name, getattr(value, name, None)) for name in names)


_ABSENT: Place = (0, 0, 0)
#: Addresses, sizes and dtype codes, one each a tensor; 0 where there is none.
Columns: TypeAlias = tuple[list[int], list[int], list[int]]


@dataclass(frozen=True, slots=True)
class DeviceAccess:
    """How tensors on a device are told from others.

    Args:
        is_any: Whether one of these is there.
        part: What lies there of a tensor; None of one that lies on the host. Raises `Unsupported`.
        code: The dtype code that its values have on the host.
        all_at_once: Sizes and codes of tensors that all lie there whole; None where `part` has to look at one.
    """

    is_any: Callable[[Sequence[Tensor | None]], bool]
    part: Callable[[Tensor], Tensor | None]
    code: Callable[[Tensor], int]
    all_at_once: Callable[[Sequence[Tensor | None]], tuple[list[int], list[int]] | None]


class TensorTables:
    """Makes the tables of one model.

    Args:
        place: Where the values of a tensor lie, and what keeps them there; raises `Unsupported`.
        names: The sites of the parameters, one for each row; may grow.
        report: Called once for a parameter of which something cannot be recorded, with its site and the reason.
        device_access: How tensors on a device are told from others, where a framework has such.
        at_once: The columns of a table of tensors that lie plainly on the host; None where one of them does not.
    """

    def __init__(
        self,
        place: Callable[[Tensor], tuple[Place, object]],
        names: Sequence[str],
        report: Callable[[str, str], None],
        device_access: DeviceAccess | None = None,
        at_once: Callable[[Sequence[Tensor | None]], Columns | None] | None = None,
    ) -> None:
        self._place_of, self._names, self._report, self._device_access = place, names, report, device_access
        self._at_once = at_once
        self._reported: set[str] = set()
        self._known: dict[str, tuple[Columns, Arrays]] = {}
        self._several: tuple[tuple[str | Columns, ...], Mapping[str, Arrays]] = (), {}

    def table(self, tensors: Sequence[Tensor | None], what: str = "") -> Arrays:
        """Return the table, a row a tensor, which keeps them alive unless they are named.

        Args:
            what: Name of a quantity that the model keeps. Its table is reused as long as the same tensors exist, and is
                updated to where they lie now.
        """
        columns = None if self._at_once is None else self._at_once(tensors)
        if columns is None:
            return self._table(tensors)
        known = self._known.get(what)
        if known is None or known[0] != columns:
            known = self._known[what] = (columns, _moved(known, columns) or table_of(list(zip(*columns, strict=True))))
        return known[1] if what else replace(known[1], owners=tensors)

    def tables(self, named: Mapping[str, Sequence[Tensor | None]]) -> Mapping[str, Arrays]:
        """Return tables of quantities that the model keeps; the same object while none of them has moved."""
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
        has_device_tensors = self._device_access.is_any(tensors) if self._device_access is not None else False
        if has_device_tensors and self._device_access is not None:
            columns = self._device_access.all_at_once(tensors)
            if columns is not None:
                table = table_of(list(zip(repeat(0), *columns, strict=False)))
                return replace(table, remote=dict(enumerate(tensors)), bring=self._place_of)
        places = [
            _ABSENT if tensor is None else self._place(number, tensor, owners, remote if has_device_tensors else None)
            for number, tensor in enumerate(tensors)
        ]
        table = table_of(places, owners)
        return replace(table, remote=remote, bring=self._place_of) if remote else table

    def _place(self, number: int, tensor: Tensor, owners: list[object], remote: dict[int, Tensor] | None) -> Place:
        try:
            if (
                remote is not None
                and self._device_access is not None
                and (part := self._device_access.part(tensor)) is not None
            ):
                remote[number] = part
                return (0, int(part.numel()), self._device_access.code(part))
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
    """Update the known table with the new addresses; None where sizes, dtypes or presence have changed."""
    if known is None or known[0][1:] != columns[1:]:
        return None
    before, now = known[0][0], columns[0]
    if not (all(before) and all(now)) and list(map(bool, before)) != list(map(bool, now)):
        return None
    known[1].moves.pack_into(known[1].addresses.data, 0, *now)
    return known[1]
