"""What a cell computes, written down as the primitives that its input passes through, for bounds to be pushed along."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...framework import Primitive, Tensor
from ...framework.nn import Cell
from ..errors import InvalidModel


@dataclass(frozen=True, slots=True)
class Slot:
    """A value that depends on the input: the output of the step of that number; 0 is the input itself."""

    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One application of a primitive.

    Args:
        primitive: What is applied.
        inputs: Slots, and constants: float64 tensors and numbers.
        attributes: Of the primitive.
        shape: Of the output, with the batch axis of length 1.
    """

    primitive: Primitive
    inputs: tuple[Any, ...]
    attributes: dict[str, Any]
    shape: tuple[int, ...]

    @property
    def slots(self) -> tuple[tuple[int, int], ...]:
        """Position among the inputs and number of every slot."""
        return tuple((place, x.number) for place, x in enumerate(self.inputs) if isinstance(x, Slot))

    def apply(self, values: dict[int, Any], constants: Callable[[Any], Any] | None = None) -> Tensor:
        """The (first) output when the slots at those positions have these values, constants changed by `constants`."""
        change = constants or (lambda x: x)
        made: Any = self.primitive(  # a tensor, or a tuple of them
            *(values[place] if place in values else change(x) for place, x in enumerate(self.inputs)), **self.attributes
        )
        result: Tensor = made[0] if isinstance(made, tuple) else made
        return result


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The steps from an input of one sample to the logits; step k writes slot k + 1."""

    shape: tuple[int, ...]
    steps: tuple[Step, ...]

    def shape_of(self, slot: int) -> tuple[int, ...]:
        """Shape of a slot, batch axis included."""
        return self.shape if slot == 0 else self.steps[slot - 1].shape


def record(cell: Cell, sample: NDArray[Any]) -> Program:
    """The program of a cell for inputs of the shape of `sample`, which has no batch axis.

    Args:
        cell: In evaluation mode.
        sample: One input; its values do not matter unless the cell asks for them.

    Raises:
        InvalidModel: The cell is in training mode, or its output does not depend on the input by primitives.
    """
    if not isinstance(cell, Cell):
        raise InvalidModel(f"certificates by bounds expect a Cell of the engine, got {type(cell).__name__}; smooth it")
    if any(part.training for _, part in cell.cells_and_names()):
        raise InvalidModel(
            f"a certificate is of one fixed function, {type(cell).__name__} is in training mode; call set_train(False)"
        )
    steps: list[Step] = []
    output = cell(_Traced(np.asarray(sample, np.float32)[None], 0, steps))
    if not isinstance(output, _Traced) or output.ndim != 2 or output.slot < 1:
        raise InvalidModel("the model must return one tensor of logits (n, classes) that depends on its input")
    return Program((1, *np.shape(sample)), tuple(steps))


class _Traced(Tensor):
    """Computes as always and writes every primitive down."""

    __slots__ = ("slot", "steps")
    __fallback_priority__: ClassVar[int] = 40

    def __init__(self, data: Any, slot: int, steps: list[Step]) -> None:
        super().__init__(data)
        self.slot, self.steps = slot, steps

    @classmethod
    def __fallback__(cls, primitive: Primitive, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """The result, traced."""
        steps = next(x.steps for x in inputs if isinstance(x, _Traced))
        plain = [Tensor(Tensor.numpy(x)) if isinstance(x, _Traced) else x for x in inputs]
        result: Any = primitive(*plain, **attributes)  # a tensor, or a tuple of them
        outputs = result if isinstance(result, tuple) else (result,)
        steps.append(Step(primitive, tuple(_kept(x) for x in inputs), dict(attributes), outputs[0].shape))
        number = len(steps)
        traced = tuple(cls(y.numpy(), _BESIDE if place else number, steps) for place, y in enumerate(outputs))
        return traced if isinstance(result, tuple) else traced[0]

    def numpy(self) -> NDArray[Any]:
        """Never: a certificate is of all inputs around the sample."""
        _no_values()

    def asnumpy(self) -> NDArray[Any]:
        """Never."""
        _no_values()

    def item(self) -> bool | int | float:
        """Never."""
        _no_values()

    def tolist(self) -> Any:
        """Never."""
        _no_values()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        _no_values()


_BESIDE = -1  # the slot of further outputs, of which nothing is known


def _no_values() -> NoReturn:
    raise InvalidModel("the model asks for values of its input; a certificate needs a model made of primitives alone")


def _kept(x: Any) -> Any:
    if isinstance(x, _Traced):
        if x.slot == _BESIDE:
            raise InvalidModel("the model computes with the places of a max pooling; bounds of these are not known")
        return Slot(x.slot)
    if isinstance(x, Tensor):
        values = x.numpy()
        return Tensor(values.astype(np.float64)) if values.dtype.kind == "f" else Tensor(values)
    return x
