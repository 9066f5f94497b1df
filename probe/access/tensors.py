"""What the hooks need to know of a framework's tensors, so that one set of hooks serves every framework."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter, methodcaller
from typing import Any, Final, TypeAlias

from numpy.typing import NDArray

# A framework's tensor and the object it comes with in the graph of its differentiation: frameworks are optional, so
# their types cannot be named.
Tensor: TypeAlias = Any
Node: TypeAlias = Any

#: (address, size, dtype code) as the kernels take them.
Place: TypeAlias = tuple[int, int, int]

#: Tensors of one nested value that are looked at, and how deep they may lie. Our choice.
MOST_TENSORS: Final = 64
_DEEPEST: Final = 6


class Unsupported(TypeError):
    """A tensor whose values do not lie in memory as plain real numbers, such as a sparse one."""


def not_plain(_tensor: Tensor) -> Place | None:
    """None: where the values lie must be looked at more closely."""
    return None


def nowhere(_tensor: Tensor) -> Tensor | None:
    """None: the tensor lies on the host."""
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


def tensors_in(value: Any, access: Access) -> Iterator[tuple[str, Tensor]]:
    """(path, tensor) of the first 64 floating tensors in a nested value, depth first.

    The first has the empty path: it stands for the whole. Sequences, mappings and dataclasses are entered.
    """
    found = 0
    for path, tensor in _walk("", value, access.kind, 0):
        if access.is_floating(tensor):
            yield (path if found else ""), tensor
            found += 1
            if found == MOST_TENSORS:
                return


def every_tensor_in(value: Any, kind: type) -> Iterator[tuple[str, Tensor]]:
    """(path, tensor) of all tensors in a nested value, whatever their dtype, depth first."""
    return _walk("", value, kind, 0)


def _walk(path: str, value: Any, kind: type, depth: int) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, kind):
        yield path, value
    elif depth < _DEEPEST:
        for key, inner in _items(value):
            yield from _walk(f"{path}[{key}]", inner, kind, depth + 1)


def _items(value: Any) -> Iterable[tuple[object, Any]]:
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list | tuple):
        return enumerate(value)
    if isinstance(value, Mapping):
        return value.items()
    names = getattr(value, "__dataclass_fields__", ())
    return ((name, getattr(value, name, None)) for name in names)
