"""Computing a cell in another precision than its parameters are kept in."""

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ..dtype import Dtype, as_dtype, is_floating
from ..errors import DtypeError
from ..tensor import Tensor

if TYPE_CHECKING:
    from .cell import Cell


class Precision:
    """A cell's inputs and parameters are cast before it runs, its outputs afterwards.

    The parameters themselves stay as they are: the cast is an operation like others, through which their gradients
    come back in their own dtype. While a cell runs, its attributes are the cast ones; two threads must not run one
    cell at the same time.

    Args:
        compute: The floating-point dtype that the cell computes in.
        output: That of its outputs; as computed by default.
    """

    __slots__ = ("compute", "output")

    def __init__(self, compute: npt.DTypeLike, output: npt.DTypeLike | None = None) -> None:
        self.compute = _floating(compute)
        self.output = None if output is None else _floating(output)

    def run(self, cell: "Cell", inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """What the cell gives for inputs so cast."""
        wide = cell._kept_wide
        changed = {
            name: parameter
            for name, parameter in cell._parameters.items()
            if name not in wide and is_floating(parameter.dtype) and parameter.dtype != self.compute
        }
        fields = cell.__dict__
        try:
            for name, parameter in changed.items():
                fields[name] = parameter.astype(self.compute)
            output = cell._call_construct(
                tuple(_cast(x, self.compute) for x in inputs), {k: _cast(x, self.compute) for k, x in options.items()}
            )
        finally:
            fields.update(changed)
        return output if self.output is None else _cast(output, self.output)

    def __repr__(self) -> str:
        return f"Precision({self.compute}{'' if self.output is None else f', {self.output}'})"


def _cast(value: Any, dtype: Dtype) -> Any:
    """The value with its floating-point tensors in that dtype; tuples and lists part by part."""
    if isinstance(value, Tensor):
        return value.astype(dtype) if is_floating(value.dtype) and value.dtype != dtype else value
    if isinstance(value, tuple | list):
        parts = [_cast(part, dtype) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def _floating(dtype: npt.DTypeLike) -> Dtype:
    found = as_dtype(dtype)
    if not is_floating(found):
        raise DtypeError(f"a cell computes in a floating-point dtype, got {found}; use float16, bfloat16 or float32")
    return found
