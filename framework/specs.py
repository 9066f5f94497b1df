"""What is known of a value without looking at it, and the words for arguments that a primitive cannot take."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .dtype import Dtype, bool_, complex64, float32, int64
from .errors import DataDependentShape, DtypeError, EngineError, ShapeError
from .random import Key
from .shape import Spec

if TYPE_CHECKING:
    from .primitive import Primitive

__all__ = ["refusal", "spec_of"]


def spec_of(value: Any) -> Any:  # of an array, a tensor or a number a Spec; a key stands for itself
    """The shape and dtype of a value; a random key, which has neither, stands for itself."""
    if isinstance(value, bool):
        return Spec((), bool_, weak=True)
    if isinstance(value, int):
        return Spec((), int64, weak=True)
    if isinstance(value, float):
        return Spec((), float32, weak=True)
    if isinstance(value, complex):
        return Spec((), complex64, weak=True)
    if isinstance(value, Key):
        return value
    dtype: Dtype = value.dtype
    return Spec(tuple(value.shape), dtype)


def refusal(
    primitive: "Primitive", values: Sequence[Any], attributes: Mapping[str, Any], error: Exception
) -> EngineError:
    """NumPy's error in the words of the primitive: what inference says of the arguments, or else what NumPy said."""
    specs = [spec_of(value) for value in values]
    shapes = ", ".join(f"{s.shape} {s.dtype}" if isinstance(s, Spec) else type(s).__name__ for s in specs)
    reason: Exception = error
    try:
        primitive.infer(*specs, **attributes)
    except DataDependentShape:
        pass
    except EngineError as better:
        reason = better
    except (ValueError, TypeError, IndexError):
        pass
    plain = DtypeError if isinstance(reason, TypeError) else ShapeError
    kind = type(reason) if isinstance(reason, EngineError) else plain
    return kind(f"'{primitive.name}' cannot take {shapes}: {reason}")
