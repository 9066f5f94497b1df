"""The parameters of an engine model and the state of its optimizers, one parameter a row."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....framework.context import is_recording
from ....framework.optim import Optimizer
from ....framework.tensor import Parameter, Tensor, wrap
from ....storage.records import Json
from ....storage.run_info import OptimizerInfo
from ...kernels import Arrays, readable, table_of
from ...tensor_access import Access, Node, Place, Unsupported
from ..parameter_selection import Choosing, with_gaps


def describe(parameter: Parameter) -> tuple[tuple[int, ...], str, int]:
    """Return shape, dtype and memory address of a parameter."""
    return parameter.shape, parameter.dtype.name, parameter.numpy().ctypes.data


def optimizer_infos(optimizers: Iterable[Optimizer]) -> tuple[OptimizerInfo, ...]:
    """Return class and options of every optimizer, without options that are not plain values."""
    return tuple(
        OptimizerInfo(type(optimizer).__name__, tuple(_options(group) for group in optimizer.param_groups))
        for optimizer in optimizers
    )


def _options(group: Mapping[str, object]) -> dict[str, Json]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in _plain(group.items())}


def _plain(items: Iterable[tuple[str, object]]) -> Iterable[tuple[str, Any]]:
    return (
        item for item in items if item[0] != "params" and isinstance(item[1], bool | int | float | str | tuple | None)
    )


_Array = NDArray[Any]  # the element type varies at run time
_ABSENT: Place = (0, 0, 0)


def place_of_array(array: _Array) -> tuple[Place, object]:
    """Return (address, size, code) of the array's values, and the array that keeps them there.

    Raises:
        Unsupported: The elements are not real numbers.
    """
    try:
        data, code = readable(array)
    except TypeError as error:
        raise Unsupported(str(error)) from None
    return (data.ctypes.data or 1, data.size, code), data


def _place(tensor: Tensor) -> tuple[Place, object]:
    return place_of_array(tensor.numpy())


def _is_floating(tensor: Tensor) -> bool:
    return tensor.dtype.kind == "f" or tensor.dtype.name == "bfloat16"


def _node(tensor: Tensor) -> Node | None:
    return tensor._node


def _nodes_before(node: Node) -> Iterable[Node]:
    return [tensor._node for tensor in node.inputs or () if isinstance(tensor, Tensor) and tensor._node is not None]


def _shown(tensor: Tensor) -> Tensor:
    detached = tensor.detach()
    if type(detached) is not Tensor:
        return detached
    view = detached.numpy().view()
    view.flags.writeable = False
    return wrap(view)


def _copied(tensor: Tensor) -> Tensor:
    return Tensor(tensor.asnumpy())


ACCESS = Access(
    kind=Tensor,
    place=_place,
    is_floating=_is_floating,
    version=lambda tensor: tensor.version,
    node=_node,
    before=_nodes_before,
    is_recording=is_recording,
    array=Tensor.numpy,
    shown=_shown,
    copied=_copied,
)


class EngineView(Choosing):
    """The parameters by their sites, in model order; each has one row in every table."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self.parameters: list[Parameter] = []
        self._left_out: frozenset[str] = frozenset()
        self._measured: list[Any] = self.parameters  # with a gap for each one that is left out
        self.optimizers: list[Optimizer] = []
        self.stepping: Optimizer | None = None
        self.given: tuple[_Array | None, ...] | None = None

    @property
    def is_away(self) -> bool:
        """False: every parameter is read on the host."""
        return False

    @property
    def names(self) -> tuple[str, ...]:
        """The sites of the parameters."""
        return tuple(self._names)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the parameters."""
        return tuple(parameter.shape for parameter in self.parameters)

    def add(self, named: Iterable[tuple[str, Parameter]]) -> bool:
        """Add these parameters at the end; return whether any of them was new."""
        known = {id(parameter) for parameter in self.parameters}
        fresh = [(name, parameter) for name, parameter in named if id(parameter) not in known]
        self._names += [name for name, _ in fresh]
        self.parameters += [parameter for _, parameter in fresh]
        if self._left_out:
            self._renew()
        return bool(fresh)

    def _renew(self) -> None:
        self._measured = with_gaps(self.parameters, self._names, self._left_out)

    def exchange(self, named: Iterable[tuple[str, Parameter]]) -> None:
        """Replace each parameter whose name now belongs to another object."""
        rows, present_ids = (
            {name: row for row, name in enumerate(self._names)},
            {id(parameter) for parameter in self.parameters},
        )
        for name, parameter in named:
            if name in rows and id(parameter) not in present_ids:
                self.parameters[rows[name]] = parameter
        if self._left_out:
            self._renew()

    def weights(self) -> Arrays:
        """Return where the weights lie now."""
        return _table([parameter.numpy() for parameter in self._measured])

    def gradients(self) -> Arrays:
        """Return where the gradients lie: those given to the stepping optimizer, else those of the parameters.

        With several optimizers what the parameters of the others hold belongs to another moment.
        """
        if self.stepping is None or self.given is None:
            return _table([_gradient_of(parameter) for parameter in self._measured])
        gradients_by_id = {
            id(parameter): array for parameter, array in zip(self.stepping.parameters, self.given, strict=True)
        }
        is_only = len(self.optimizers) < 2
        return _table(
            [
                gradients_by_id[id(parameter)]
                if id(parameter) in gradients_by_id
                else _gradient_of(parameter)
                if is_only
                else None
                for parameter in self._measured
            ]
        )

    def arrays(self, subject: str) -> Iterator[tuple[str, _Array]]:
        """Yield site and values of every weight or gradient that exists, for dumps of whole tensors."""
        gradients_by_id: dict[int, _Array | None] = {}
        if self.stepping is not None and self.given is not None:
            gradients_by_id = {
                id(parameter): array for parameter, array in zip(self.stepping.parameters, self.given, strict=True)
            }
        for name, parameter in zip(self._names, self.parameters, strict=True):
            gradient = None if parameter.grad is None else parameter.grad.numpy()
            array = parameter.numpy() if subject == "weight" else gradients_by_id.get(id(parameter), gradient)
            if array is not None and name not in self._left_out:
                yield name, array

    def has_gradients(self) -> bool:
        """Return whether any gradient has a value other than zero among its first few thousand."""
        gradients = [parameter.grad.numpy() for parameter in self.parameters if parameter.grad is not None]
        return any(bool(np.any(gradient.reshape(-1)[:4096])) for gradient in gradients)

    def rows_held(self) -> frozenset[int]:
        """Return the rows of the parameters whose gradient has such a value."""
        gradients = ((row, parameter.grad) for row, parameter in enumerate(self.parameters))
        return frozenset(row for row, grad in gradients if grad is not None and np.any(grad.numpy().reshape(-1)[:4096]))

    def rows_of(self, optimizer: Optimizer) -> frozenset[int]:
        """Return the rows of the parameters that the optimizer steps."""
        parameter_ids = {id(parameter) for parameter in optimizer.parameters}
        return frozenset(row for row, parameter in enumerate(self.parameters) if id(parameter) in parameter_ids)

    def is_cleared(self, optimizer: Optimizer | None) -> bool:
        """Return whether all gradients of the optimizer's parameters are zero; None means all parameters."""
        parameters = self.parameters if optimizer is None else optimizer.parameters
        gradients = (parameter.grad.numpy() for parameter in parameters if parameter.grad is not None)
        return not any(bool(np.any(gradient.reshape(-1)[:4096])) for gradient in gradients)

    def slots(self) -> dict[str, Arrays]:
        """Return every slot of every optimizer."""
        arrays: dict[str, dict[int, _Array]] = {}
        for optimizer in self.optimizers:
            for name, slots in optimizer.slots().items():
                slots_by_parameter = arrays.setdefault(name, {})
                slots_by_parameter.update(
                    (id(parameter), slot) for parameter, slot in zip(optimizer.parameters, slots, strict=True)
                )
        return {
            name: _table([slots.get(id(parameter)) for parameter in self._measured]) for name, slots in arrays.items()
        }

    def learning_rates(self) -> tuple[float, ...]:
        """Return the learning rate of every group of every optimizer."""
        return tuple(float(group["lr"]) for optimizer in self.optimizers for group in optimizer.param_groups)


def _gradient_of(parameter: Parameter) -> _Array | None:
    return None if parameter.grad is None else parameter.grad.numpy()


def _table(arrays: Sequence[_Array | None]) -> Arrays:
    owners: list[object] = []
    places: list[Place] = []
    for array in arrays:
        place, owner = (_ABSENT, None) if array is None else place_of_array(array)
        places.append(place)
        owners.append(owner)
    return table_of(places, owners)
