"""Python's operators on tensors: each is the function of `ops` of that name; the tensor itself knows no operation."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from .dtype import Number

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["METHODS", "Operators"]

TensorLike: TypeAlias = Union["Tensor", Number, complex]

#: The functions behind operators and methods, by name; `tensor.method` fills it in.
METHODS: "dict[str, Callable[..., Tensor]]" = {}


class Operators:
    """What a tensor does between operands."""

    __slots__ = ()

    def __add__(self, other: TensorLike) -> "Tensor":
        return METHODS["add"](self, other)

    def __radd__(self, other: TensorLike) -> "Tensor":
        return METHODS["add"](other, self)

    def __sub__(self, other: TensorLike) -> "Tensor":
        return METHODS["subtract"](self, other)

    def __rsub__(self, other: TensorLike) -> "Tensor":
        return METHODS["subtract"](other, self)

    def __mul__(self, other: TensorLike) -> "Tensor":
        return METHODS["multiply"](self, other)

    def __rmul__(self, other: TensorLike) -> "Tensor":
        return METHODS["multiply"](other, self)

    def __truediv__(self, other: TensorLike) -> "Tensor":
        return METHODS["divide"](self, other)

    def __rtruediv__(self, other: TensorLike) -> "Tensor":
        return METHODS["divide"](other, self)

    def __pow__(self, other: TensorLike) -> "Tensor":
        return METHODS["power"](self, other)

    def __rpow__(self, other: TensorLike) -> "Tensor":
        return METHODS["power"](other, self)

    def __matmul__(self, other: "Tensor") -> "Tensor":
        return METHODS["matmul"](self, other)

    def __floordiv__(self, other: TensorLike) -> "Tensor":
        return METHODS["floor_divide"](self, other)

    def __rfloordiv__(self, other: TensorLike) -> "Tensor":
        return METHODS["floor_divide"](other, self)

    def __mod__(self, other: TensorLike) -> "Tensor":
        return METHODS["remainder"](self, other)

    def __rmod__(self, other: TensorLike) -> "Tensor":
        return METHODS["remainder"](other, self)

    def __and__(self, other: TensorLike) -> "Tensor":
        return METHODS["bitwise_and"](self, other)

    def __rand__(self, other: TensorLike) -> "Tensor":
        return METHODS["bitwise_and"](other, self)

    def __or__(self, other: TensorLike) -> "Tensor":
        return METHODS["bitwise_or"](self, other)

    def __ror__(self, other: TensorLike) -> "Tensor":
        return METHODS["bitwise_or"](other, self)

    def __xor__(self, other: TensorLike) -> "Tensor":
        return METHODS["bitwise_xor"](self, other)

    def __rxor__(self, other: TensorLike) -> "Tensor":
        return METHODS["bitwise_xor"](other, self)

    def __lshift__(self, other: TensorLike) -> "Tensor":
        return METHODS["left_shift"](self, other)

    def __rlshift__(self, other: TensorLike) -> "Tensor":
        return METHODS["left_shift"](other, self)

    def __rshift__(self, other: TensorLike) -> "Tensor":
        return METHODS["right_shift"](self, other)

    def __rrshift__(self, other: TensorLike) -> "Tensor":
        return METHODS["right_shift"](other, self)

    def __divmod__(self, other: TensorLike) -> "tuple[Tensor, Tensor]":
        return METHODS["floor_divide"](self, other), METHODS["remainder"](self, other)

    def __rdivmod__(self, other: TensorLike) -> "tuple[Tensor, Tensor]":
        return METHODS["floor_divide"](other, self), METHODS["remainder"](other, self)

    def __rmatmul__(self, other: "Tensor") -> "Tensor":
        return METHODS["matmul"](other, self)

    def __invert__(self) -> "Tensor":
        return METHODS["bitwise_not"](self)

    def __pos__(self) -> "Tensor":
        return METHODS["identity"](self)

    def __round__(self, decimals: int = 0) -> "Tensor":
        return METHODS["round"](self, decimals)

    def __neg__(self) -> "Tensor":
        return METHODS["negative"](self)

    def __abs__(self) -> "Tensor":
        return METHODS["abs"](self)

    def __getitem__(self, index: object) -> "Tensor":
        return METHODS["getitem"](self, index)

    def __eq__(self, other: object) -> "Tensor":  # type: ignore[override]
        return METHODS["equal"](self, other)

    def __ne__(self, other: object) -> "Tensor":  # type: ignore[override]
        return METHODS["not_equal"](self, other)

    def __lt__(self, other: TensorLike) -> "Tensor":
        return METHODS["less"](self, other)

    def __le__(self, other: TensorLike) -> "Tensor":
        return METHODS["less_equal"](self, other)

    def __gt__(self, other: TensorLike) -> "Tensor":
        return METHODS["greater"](self, other)

    def __ge__(self, other: TensorLike) -> "Tensor":
        return METHODS["greater_equal"](self, other)

    __hash__ = object.__hash__

    if TYPE_CHECKING:
        # Functions of `ops` whose first argument is a tensor become methods when they are registered.
        def __getattr__(self, name: str) -> Callable[..., Any]: ...
