"""Tensors: an array, whether it needs a gradient, and the recorded operation that made it."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, Union

import numpy as np
import numpy.typing as npt

from .context import CAPTURE, RECORDING
from .dtype import Array, Dtype, Number, as_dtype, float32, is_inexact
from .errors import DtypeError, GradientError, ShapeError
from .hooks import AutogradNode, Handle, Hooks
from .specs import Axes, Shape

__all__ = ["METHODS", "Array", "Parameter", "Tensor", "TensorLike", "method"]

TensorLike: TypeAlias = Union["Tensor", Number, complex]

#: The functions behind operators and methods, by name; `method` fills it in. The tensor itself knows no operation.
METHODS: "dict[str, Callable[..., Tensor]]" = {}

_Function = TypeVar("_Function", bound=Callable[..., Any])


def method(function: _Function) -> _Function:
    """Register a function as the tensor method of its name; add the method where the class does not declare it."""
    name = function.__name__
    METHODS[name] = function
    if not hasattr(Tensor, name):
        setattr(Tensor, name, function)
    return function


def as_array(data: object, dtype: npt.DTypeLike | None = None) -> Array:
    """Convert data to an array of a dtype of the engine; share an ndarray, make Python floats float32."""
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


def _unary(name: str) -> "Callable[[Tensor], Tensor]":
    def operator(self: "Tensor") -> "Tensor":
        return METHODS[name](self)

    return operator


def _binary(name: str) -> "Callable[[Tensor, TensorLike], Tensor]":
    def operator(self: "Tensor", other: TensorLike) -> "Tensor":
        return METHODS[name](self, other)

    return operator


def _reflected(name: str) -> "Callable[[Tensor, TensorLike], Tensor]":
    def operator(self: "Tensor", other: TensorLike) -> "Tensor":
        return METHODS[name](other, self)

    return operator


class Tensor:
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
    __fallback__: ClassVar[Callable[..., object] | None] = None
    __fallback_priority__: ClassVar[int] = 30

    _data: Array

    def __init__(self, data: object, dtype: npt.DTypeLike | None = None, *, requires_grad: bool = False) -> None:
        self._data = as_array(data, dtype)
        self._grad: Tensor | None = None
        self._node: AutogradNode | None = None
        self._index = 0
        self._hooks: Hooks | None = None
        self._version = [0]  # shared with the tensors that share the values
        if requires_grad and not is_inexact(self._data.dtype):
            raise DtypeError(f"a tensor that requires a gradient must be floating-point, got {self._data.dtype}")
        self.requires_grad = requires_grad

    # Properties and values.

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
        """Device that holds the values: "CPU", or the name of another device; `to(device)` moves them."""
        return "CPU"

    def numpy(self) -> Array:
        """Return the values, shared with the tensor: treat them as read-only, or call `mark_changed` after writing."""
        return self._data

    def asnumpy(self) -> Array:
        """Return a copy of the values."""
        return self._data.copy()

    def item(self) -> bool | int | float:
        """Return the single value as a Python number."""
        if self._data.size != 1:
            raise ShapeError(f"item() expects a tensor of one element, got shape {self.shape}")
        value: bool | int | float = self._data.item()
        return value

    def tolist(self) -> Any:  # nested lists of any depth
        """Return the values as nested lists of Python numbers."""
        return self._data.tolist()

    # Differentiation.

    @property
    def grad(self) -> "Tensor | None":
        """Gradient that `backward()` has accumulated so far; None before the first pass."""
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
        """Add gradients to `.grad` of every leaf that requires one.

        Args:
            gradient: Weight of each element; may be left out for a scalar.
            retain_graph: Keep the recorded graph for another pass.
            create_graph: Record the pass itself, for derivatives of derivatives. Implies `retain_graph`.

        Raises:
            GradientError: Not a scalar and no `gradient` given, or no operation was recorded.
        """
        METHODS["backward"](self, gradient, retain_graph=retain_graph or create_graph, create_graph=create_graph)

    def register_hook(self, hook: "Callable[[Tensor], Tensor | None]") -> Handle:
        """Call `hook(gradient)` when this gradient is complete; a tensor that it returns replaces the gradient."""
        if not self.requires_grad:
            raise GradientError("a hook on a tensor that requires no gradient would never be called")
        if self._node is not None:
            return Handle(self._node.hooks_of(self._index), hook)
        if self._hooks is None:
            self._hooks = {}
        return Handle(self._hooks, hook)

    def retain_grad(self) -> None:
        """Make `backward()` keep the gradient of this tensor in `.grad`, as it does for leaves."""
        METHODS["retain_grad"](self)

    def detach(self) -> "Tensor":
        """Return a tensor that shares the values and is outside the recorded graph."""
        if self.__fallback__ is not None or CAPTURE.get() is not None:
            return METHODS["stop_gradient"](self)
        result = wrap(self._data)
        result._version = self._version
        return result

    # Changes in place. The recorded graph notices them by the version.

    @property
    def version(self) -> int:
        """Number of changes in place so far."""
        return self._version[0]

    def mark_changed(self) -> None:
        """Report a write into `numpy()`: a gradient that needs the former values then raises."""
        self._version[0] += 1

    def copy_(self, data: object) -> "Tensor":
        """Overwrite the values in place and return this tensor."""
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

    # Operators: each calls the function of `ops` of that name.

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _binary("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _binary("divide"), _reflected("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _reflected("floor_divide")
    __mod__, __rmod__ = _binary("remainder"), _reflected("remainder")
    __pow__, __rpow__ = _binary("power"), _reflected("power")
    __matmul__, __rmatmul__ = _binary("matmul"), _reflected("matmul")
    __and__, __rand__ = _binary("bitwise_and"), _reflected("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or"), _reflected("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor"), _reflected("bitwise_xor")
    __lshift__, __rlshift__ = _binary("left_shift"), _reflected("left_shift")
    __rshift__, __rrshift__ = _binary("right_shift"), _reflected("right_shift")
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __eq__ = _binary("equal")  # type: ignore[assignment]
    __ne__ = _binary("not_equal")  # type: ignore[assignment]
    __hash__ = object.__hash__
    __neg__, __pos__ = _unary("negative"), _unary("identity")
    __abs__, __invert__ = _unary("abs"), _unary("bitwise_not")

    def __divmod__(self, other: TensorLike) -> "tuple[Tensor, Tensor]":
        return METHODS["floor_divide"](self, other), METHODS["remainder"](self, other)

    def __rdivmod__(self, other: TensorLike) -> "tuple[Tensor, Tensor]":
        return METHODS["floor_divide"](other, self), METHODS["remainder"](other, self)

    def __round__(self, decimals: int = 0) -> "Tensor":
        return METHODS["round"](self, decimals)

    def __getitem__(self, index: object) -> "Tensor":
        return METHODS["getitem"](self, index)

    def __setitem__(self, index: object, value: object) -> None:
        if self._node is not None or (self.requires_grad and RECORDING.get()):
            raise GradientError("item assignment is not recorded; use ops.where, or assign inside no_grad()")
        self._data[plain_index(index)] = as_array(value)
        self.mark_changed()

    # The commonest operations by name; `method` adds the other functions of `ops`.

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    exp, log, sqrt, tanh = _unary("exp"), _unary("log"), _unary("sqrt"), _unary("tanh")

    @property
    def T(self) -> "Tensor":  # noqa: N802 (NumPy's name)
        """Tensor with its axes reversed."""
        return METHODS["transpose"](self)

    def sum(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """Sum over `axis`."""
        return METHODS["sum"](self, axis, keepdims)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """Average over `axis`."""
        return METHODS["mean"](self, axis, keepdims)

    def var(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """Return the population variance over `axis`."""
        return METHODS["var"](self, axis, keepdims)

    def max(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """Return the largest element over `axis`."""
        return METHODS["max"](self, axis, keepdims)

    def min(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """Return the smallest element over `axis`."""
        return METHODS["min"](self, axis, keepdims)

    def argmax(self, axis: int | None = None) -> "Tensor":
        """Return the index of the largest element."""
        return METHODS["argmax"](self, axis)

    def reshape(self, *shape: int | Sequence[int]) -> "Tensor":
        """Return the elements in another shape; one length may be -1."""
        return METHODS["reshape"](self, shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)

    def flatten(self, start: int = 0, end: int = -1) -> "Tensor":
        """Join axes `start` to `end`, both included, into one."""
        return METHODS["flatten"](self, start, end)

    def transpose(self, *axes: int | Sequence[int]) -> "Tensor":
        """Permute the axes; reverse them by default."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return METHODS["transpose"](self, order or None)

    def swapaxes(self, first: int, second: int) -> "Tensor":
        """Exchange two axes."""
        return METHODS["swapaxes"](self, first, second)

    def astype(self, dtype: npt.DTypeLike) -> "Tensor":
        """Convert the values to another element type; gradients flow back in this one."""
        return METHODS["cast"](self, dtype)

    # Python's and NumPy's protocols.

    def __len__(self) -> int:
        if not self._data.ndim:
            raise ShapeError("a tensor of no axes has no length; use .size")
        return len(self._data)

    def __iter__(self) -> "Iterator[Tensor]":
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if self._data.dtype.kind not in "iu":
            raise DtypeError(f"an index must be an integer tensor, got {self._data.dtype}")
        return int(self.item())

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy:
            return np.array(self._data, dtype=dtype)
        if copy is False and dtype is not None and np.dtype(dtype) != self._data.dtype:
            raise ValueError(f"a view of {self._data.dtype} as {np.dtype(dtype)} needs a copy; pass copy=None or True")
        return np.asarray(self._data, dtype=dtype)  # NumPy 1 knows no copy=None

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
        """Overwrite the values in place; shape and dtype stay."""
        self.copy_(data)

    def move_to(self, storage: Array) -> None:
        """Copy the values into `storage` (same shape and dtype) and share its memory from now on."""
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
    """Make a tensor around an array, without a check or a copy."""
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
    """Replace the tensors in an index by their arrays."""
    if isinstance(index, tuple):
        return tuple(plain_index(part) for part in index)
    return index._data if isinstance(index, Tensor) else index
