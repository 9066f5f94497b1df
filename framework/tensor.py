"""Tensors: an array, whether it needs a gradient, and its place in the recorded graph."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, Union

import numpy as np
import numpy.typing as npt

from .context import CAPTURE, RECORDING
from .dtype import Dtype, Number, as_dtype, float32, is_inexact
from .errors import DtypeError, GradientError, ShapeError
from .hooks import Handle, Hooks
from .methods import Methods
from .operators import METHODS, Operators
from .protocols import Protocols
from .shape import Shape

if TYPE_CHECKING:
    from .node import Node

__all__ = ["Array", "Parameter", "Tensor", "TensorLike", "method"]

# The element type varies at run time; the dtype module speaks about it.
Array: TypeAlias = npt.NDArray[Any]
TensorLike: TypeAlias = Union["Tensor", Number, complex]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def method(function: _Function) -> _Function:
    """The function itself, now also what the tensor method of its name calls; where there is none it becomes one."""
    name = function.__name__
    METHODS[name] = function
    if not hasattr(Tensor, name):
        setattr(Tensor, name, function)
    return function


def as_array(data: object, dtype: npt.DTypeLike | None = None) -> Array:
    """The data as an array of an element type the engine has; an ndarray is shared, Python floats become float32."""
    if isinstance(data, Tensor):
        data = data._data if data.__fallback__ is None else data.numpy()
    weak = not isinstance(data, np.ndarray | np.generic)
    array = np.asarray(data)
    if dtype is not None:
        return array.astype(as_dtype(dtype), copy=False)
    if weak and array.dtype == np.float64:
        return array.astype(float32)
    as_dtype(array.dtype)
    return array


class Tensor(Operators, Methods, Protocols):
    """An n-dimensional array that operations can be recorded on.

    Args:
        data: Numbers, nested lists, a tensor, or an ndarray, which is shared and not copied.
        dtype: Element type; by default that of the data, and float32 for Python floats.
        requires_grad: Whether gradients of later results flow to this tensor.

    Example:
        >>> x = Tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        Tensor([2., 4.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_data", "_grad", "_hooks", "_index", "_node", "_version", "requires_grad")
    __array_priority__ = 1000.0  # so that `ndarray * tensor` asks the tensor
    __array_ufunc__ = None

    #: A subclass that defines this classmethod, `__fallback__(primitive, inputs, attributes)`, sees every primitive
    #: that is applied to its instances and returns the result, or NotImplemented. Of several such classes among the
    #: inputs the one of the highest priority is asked first.
    __fallback__: ClassVar[Callable[..., Any] | None] = None
    __fallback_priority__: ClassVar[int] = 30

    _data: Array

    def __init__(self, data: object, dtype: npt.DTypeLike | None = None, *, requires_grad: bool = False) -> None:
        self._data = as_array(data, dtype)
        self._grad: Tensor | None = None
        self._node: Node | None = None
        self._index = 0
        self._hooks: Hooks | None = None
        self._version = [0]  # shared with those who share the values
        if requires_grad and not is_inexact(self._data.dtype):
            raise DtypeError(f"a tensor that requires a gradient must be floating-point, got {self._data.dtype}")
        self.requires_grad = requires_grad

    # What it is.

    @property
    def shape(self) -> Shape:
        """Lengths of the axes."""
        return self._data.shape

    @property
    def dtype(self) -> Dtype:
        """Element type."""
        return self._data.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._data.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._data.size

    @property
    def device(self) -> str:
        """Where the values are: "CPU", or the name of another device; `to(device)` moves them."""
        return "CPU"

    def numpy(self) -> Array:
        """The values, shared with the tensor: treat them as read-only, or call `mark_changed` after writing."""
        return self._data

    def asnumpy(self) -> Array:
        """A copy of the values."""
        return self._data.copy()

    def item(self) -> bool | int | float:
        """The single value as a Python number."""
        if self._data.size != 1:
            raise ShapeError(f"item() expects a tensor of one element, got shape {self.shape}")
        value: bool | int | float = self._data.item()
        return value

    def tolist(self) -> Any:  # nested lists of any depth
        """The values as nested lists of Python numbers."""
        return self._data.tolist()

    # Differentiation.

    @property
    def grad(self) -> "Tensor | None":
        """What `backward()` has accumulated here so far; None before the first."""
        return self._grad

    @grad.setter
    def grad(self, value: "Tensor | None") -> None:
        if value is not None and value.shape != self.shape:
            raise ShapeError(f"the gradient of a tensor of shape {self.shape} cannot have shape {value.shape}")
        capture = CAPTURE.get()
        if capture is not None:
            capture.touch_grad(self, is_overwritten=True)
        self._grad = value

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor."""
        return self._node is None

    def backward(
        self, gradient: "Tensor | None" = None, *, retain_graph: bool = False, create_graph: bool = False
    ) -> None:
        """Nothing; gradients are added to `.grad` of every leaf that requires one.

        Args:
            gradient: Weight of each element; may be left out for a scalar.
            retain_graph: Keep the recorded graph for another pass.
            create_graph: Record the pass itself, for derivatives of derivatives. Implies `retain_graph`.

        Raises:
            GradientError: Not a scalar and no `gradient` given, or nothing was recorded.
        """
        METHODS["backward"](self, gradient, retain_graph=retain_graph or create_graph, create_graph=create_graph)

    def register_hook(self, hook: "Callable[[Tensor], Tensor | None]") -> Handle:
        """A handle on `hook(gradient)`, called when this gradient is complete; a returned tensor replaces it."""
        if not self.requires_grad:
            raise GradientError("a hook on a tensor that requires no gradient would never be called")
        if self._node is not None:
            return Handle(self._node.hooks_of(self._index), hook)
        if self._hooks is None:
            self._hooks = {}
        return Handle(self._hooks, hook)

    def retain_grad(self) -> None:
        """Nothing; `backward()` will keep the gradient of this tensor in `.grad`, as it does for leaves."""
        METHODS["retain_grad"](self)

    def detach(self) -> "Tensor":
        """The same values, shared, outside the recorded graph."""
        if self.__fallback__ is not None or CAPTURE.get() is not None:
            return METHODS["stop_gradient"](self)
        result = wrap(self._data)
        result._version = self._version
        return result

    # Change in place. What the graph has saved notices by the version.

    @property
    def version(self) -> int:
        """How often the values were changed in place."""
        return self._version[0]

    def mark_changed(self) -> None:
        """Nothing; a gradient that needs the former values will now refuse. For those who write into `numpy()`."""
        self._version[0] += 1

    def copy_(self, data: object) -> "Tensor":
        """This tensor, its values overwritten in place."""
        if self._node is not None:
            raise GradientError(
                "a tensor made by a recorded operation cannot be overwritten; use a new tensor or detach()"
            )
        capture = CAPTURE.get()
        if capture is not None:
            capture.assign(self, data)
            self.mark_changed()
            return self
        array = as_array(data)
        if array.shape != self._data.shape:
            raise ShapeError(f"cannot overwrite a tensor of shape {self.shape} with shape {array.shape}")
        self._data[...] = array
        self.mark_changed()
        return self

    def __setitem__(self, index: object, value: object) -> None:
        if self._node is not None or (self.requires_grad and RECORDING.get()):
            raise GradientError("item assignment is not recorded; use ops.where, or assign inside no_grad()")
        self._data[plain_index(index)] = as_array(value)
        self.mark_changed()

    def __repr__(self) -> str:
        values = np.array2string(self._data, separator=", ", prefix=f"{type(self).__name__}(")
        return f"{type(self).__name__}({values}, dtype={self.dtype})"


class Parameter(Tensor):
    """A tensor that belongs to a cell and is trained.

    Args:
        data: Values; an ndarray is shared, not copied.
        name: Its site; the cell that owns it fills it in.
        requires_grad: False freezes it.
    """

    __slots__ = ("name",)

    def __init__(
        self, data: object, name: str = "", requires_grad: bool = True, *, dtype: npt.DTypeLike | None = None
    ) -> None:
        super().__init__(data, dtype, requires_grad=requires_grad)
        self.name = name

    def set_data(self, data: object) -> None:
        """Nothing; the values are overwritten in place, shape and dtype stay."""
        self.copy_(data)

    def move_to(self, storage: Array) -> None:
        """Nothing; the values are copied into `storage` (same shape and dtype) and shared with it from now on."""
        if storage.shape != self._data.shape or storage.dtype != self._data.dtype:
            raise ShapeError(
                f"parameter '{self.name}' of {self.shape} {self.dtype} cannot move to storage of "
                f"{storage.shape} {storage.dtype}; they must be equal"
            )
        storage[...] = self._data
        self._data = storage

    def __repr__(self) -> str:
        return (
            f"Parameter(name={self.name!r}, shape={self.shape}, dtype={self.dtype}, requires_grad={self.requires_grad})"
        )


_new = object.__new__


def wrap(data: Array) -> Tensor:
    """A tensor around an array, without a check or a copy."""
    result: Tensor = _new(Tensor)
    result._data = data
    result._grad = None
    result._node = None
    result._index = 0
    result._hooks = None
    result._version = [0]
    result.requires_grad = False
    return result


def plain_index(index: object) -> Any:  # NumPy accepts ints, slices, arrays, None, ... and tuples of them
    """An index with arrays in the place of tensors."""
    if isinstance(index, tuple):
        return tuple(plain_index(part) for part in index)
    return index._data if isinstance(index, Tensor) else index
