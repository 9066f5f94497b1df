"""A cell recorded as the primitives that its input passes through, so that bounds can be propagated."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from ...framework import Primitive, Tensor
from ...framework.nn import Cell
from ..errors import InvalidModel


@dataclass(frozen=True, slots=True)
class ProgramSlot:
    """A value that depends on the input: the output of the step of that number; 0 is the input itself."""

    number: int


@dataclass(frozen=True, slots=True, eq=False)
class ProgramStep:
    """One application of a primitive.

    Args:
        primitive: What is applied.
        inputs: Slots, and constants: float64 tensors and numbers.
        attributes: Of the primitive.
        shape: Of the output, with the batch axis of length 1.
    """

    primitive: Primitive
    inputs: tuple[Any, ...]  # Any: what a primitive takes besides slots and tensors
    attributes: dict[str, Any]
    shape: tuple[int, ...]

    @property
    def slots(self) -> tuple[tuple[int, int], ...]:
        """Position among the inputs and number of every slot."""
        return tuple((position, x.number) for position, x in enumerate(self.inputs) if isinstance(x, ProgramSlot))

    def apply(self, values: Mapping[int, Tensor], constants: Callable[[Any], object] | None = None) -> Tensor:
        """Return the (first) output for these values at the slots' positions, constants changed by `constants`."""
        change = constants or (lambda x: x)
        made: Tensor | tuple[Tensor, ...] = self.primitive(
            *(values[position] if position in values else change(x) for position, x in enumerate(self.inputs)),
            **self.attributes,
        )
        result: Tensor = made[0] if isinstance(made, tuple) else made
        return result


@dataclass(frozen=True, slots=True, eq=False)
class NetworkProgram:
    """The steps from an input of one sample to the logits; step k writes slot k + 1."""

    shape: tuple[int, ...]
    steps: tuple[ProgramStep, ...]

    def shape_of(self, slot: int) -> tuple[int, ...]:
        """Shape of a slot, batch axis included."""
        return self.shape if slot == 0 else self.steps[slot - 1].shape


def record(cell: Cell, sample: NDArray[np.generic]) -> NetworkProgram:
    """Record the program of a cell for inputs of the shape of `sample`, which has no batch axis.

    Args:
        cell: In evaluation mode.
        sample: One input; its values do not matter unless the cell asks for them.

    Raises:
        InvalidModel: The cell is in training mode, or its output does not depend on the input by primitives.
    """
    if any(part.training for _, part in cell.cells_and_names()):
        raise InvalidModel(
            f"a certificate expects evaluation mode, {type(cell).__name__} is in training mode; call set_train(False)"
        )
    steps: list[ProgramStep] = []
    output = cell(_Traced(np.asarray(sample, np.float32)[None], 0, steps))
    if not isinstance(output, _Traced) or output.ndim != 2 or output.slot < 1:
        raise InvalidModel("the model must return one tensor of logits (n, classes) that depends on its input")
    return NetworkProgram((1, *np.shape(sample)), tuple(steps))


class _Traced(Tensor):
    """A tensor that computes as usual and records every primitive."""

    __slots__ = ("slot", "steps")
    __fallback_priority__: ClassVar[int] = 40

    def __init__(self, data: object, slot: int, steps: list[ProgramStep]) -> None:
        super().__init__(data)
        self.slot, self.steps = slot, steps

    @classmethod
    def __fallback__(
        cls, primitive: Primitive, inputs: tuple[Any, ...], attributes: dict[str, Any]
    ) -> Tensor | tuple[Tensor, ...]:
        """Apply the primitive, record it, and return the traced result."""
        steps = next(x.steps for x in inputs if isinstance(x, _Traced))
        plain = [Tensor(Tensor.numpy(x)) if isinstance(x, _Traced) else x for x in inputs]
        result: Tensor | tuple[Tensor, ...] = primitive(*plain, **attributes)
        outputs = result if isinstance(result, tuple) else (result,)
        steps.append(ProgramStep(primitive, tuple(_as_input(x) for x in inputs), dict(attributes), outputs[0].shape))
        number = len(steps)
        traced = tuple(cls(y.numpy(), _SECONDARY if position else number, steps) for position, y in enumerate(outputs))
        return traced if isinstance(result, tuple) else traced[0]

    def numpy(self) -> NoReturn:
        """Refuse: a certificate covers all inputs around the sample."""
        _no_values()

    def asnumpy(self) -> NoReturn:
        """Refuse, as `numpy` does."""
        _no_values()

    def item(self) -> NoReturn:
        """Refuse, as `numpy` does."""
        _no_values()

    def tolist(self) -> NoReturn:
        """Refuse, as `numpy` does."""
        _no_values()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> NoReturn:
        _no_values()


_SECONDARY = -1  # the slot of further outputs, for which no bounds are known


def _no_values() -> NoReturn:
    raise InvalidModel("the model reads values of its input; a certificate expects a model of primitives alone")


def _as_input(x: object) -> object:
    if isinstance(x, _Traced):
        if x.slot == _SECONDARY:
            raise InvalidModel("the model computes with the positions of a max pooling, for which no bounds are known")
        return ProgramSlot(x.slot)
    if isinstance(x, Tensor):
        values = x.numpy()
        return Tensor(values.astype(np.float64)) if values.dtype.kind == "f" else Tensor(values)
    return x
