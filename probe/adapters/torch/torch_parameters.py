"""The parameters of a torch model and the state of its optimizers, one parameter a row, and what a run says of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from operator import attrgetter, itemgetter
from types import NoneType
from typing import Any, Final

import torch
from numpy.typing import NDArray

from ....storage.records import Json
from ....storage.run_info import OptimizerInfo
from ...kernels import Arrays
from ...tensor_access import DeviceAccess, Tensor, TensorTables, Unsupported, every_tensor_in
from ..parameter_selection import Choosing, with_gaps
from . import torch_tensors as tensors
from .torch_tensors import (
    array_of,
    code_on_host,
    columns_away,
    columns_of,
    is_any_remote,
    is_remote,
    local_part,
    place_of,
    remote,
)


def describe(parameter: Tensor) -> tuple[tuple[int, ...], str, int]:
    """Shape, dtype and memory of a parameter."""
    shape = () if _is_uninitialized(parameter) else tuple(parameter.shape)
    return shape, str(parameter.dtype).removeprefix("torch."), memory_of(parameter)


def optimizer_infos(optimizers: Iterable[Any]) -> tuple[OptimizerInfo, ...]:
    """Class and options of every optimizer; options that are no plain values are left out."""
    return tuple(
        OptimizerInfo(type(optimizer).__name__, tuple(_options(group) for group in optimizer.param_groups))
        for optimizer in optimizers
    )


def plain(value: Any) -> Json:
    """Return the value as JSON can hold it, one-element tensors as numbers.

    Raises:
        TypeError: It is none of these.
    """
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"no plain value: {type(value).__name__}")


def _options(group: dict[str, Any]) -> dict[str, Json]:
    options: dict[str, Json] = {}
    for name, value in group.items():
        try:
            options[name] = plain(value) if name != "params" else None
        except TypeError:
            continue
    options.pop("params", None)
    return options


def _is_uninitialized(parameter: Tensor) -> bool:
    return isinstance(parameter, torch.nn.parameter.UninitializedTensorMixin)


def memory_of(parameter: Tensor) -> int:
    """Return the address of the values; the parameter's own number if it has none, or stands for another."""
    if _is_uninitialized(parameter) or torch._C._functorch.is_functorch_wrapped_tensor(parameter):
        return id(parameter)
    return int(parameter.data_ptr()) or id(parameter)


#: Tensors of a slot that is a list or a mapping (our choice: more than a tensor has dimensions); a longer list is a
#: history.
_MOST_NESTED: Final = 8
#: Lists of L-BFGS, which are histories before they have grown.
_HISTORIES: Final = ("old_dirs", "old_stps", "ro", "al")


class States:
    """The slots of one model's parameters, by name."""

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._count = -1
        self._states: dict[str, list[dict[str, Any]]] = {}
        self._nested: list[tuple[int, dict[str, Any]]] = []
        self._lengths: dict[tuple[int, str], int] = {}
        self._histories = set(_HISTORIES)

    def slots(self, parameters: Sequence[Tensor], optimizers: Sequence[Any]) -> dict[str, list[Tensor | None]]:
        """Return every slot that holds a tensor for some parameter, but the count of steps; one entry a parameter.

        Tensors in a slot that is a list or a mapping are slots of their own, `slot[key]`. Of a list that is a history,
        for it grows or is long, only the newest entry is one, `slot[-1]`.
        """
        seen: list[int] = []
        for optimizer in optimizers:
            held = optimizer.state.values()
            seen += map(id, held)
            seen += map(len, held)
        if seen != self._seen or len(parameters) != self._count:
            self._look(parameters, optimizers)
            self._seen, self._count = seen, len(parameters)
        slots: dict[str, list[Tensor | None]] = {}
        for name, states in self._states.items():
            held = list(map(dict.get, states, repeat(name)))
            if not all(issubclass(kind, torch.Tensor | NoneType) for kind in set(map(type, held))):
                held = [one if isinstance(one, torch.Tensor) else None for one in held]  # `t` of L-BFGS: now a float
                if all(one is None for one in held):
                    continue
            slots[name] = held
        if self._nested:
            self._find_histories()
        for row, state in self._nested:
            for name, tensor in self._inside(state):
                slots.setdefault(name, [None] * len(parameters))[row] = tensor
        return slots

    def _look(self, parameters: Sequence[Tensor], optimizers: Sequence[Any]) -> None:
        states = [_state_of(parameter, optimizers) for parameter in parameters]
        names = dict.fromkeys(name for state in states for name, slot in state.items() if _is_slot(name, slot))
        self._states = {name: [state if _is_slot(name, state.get(name)) else {} for state in states] for name in names}
        self._nested = [(row, state) for row, state in enumerate(states) if any(map(_is_nest, state.values()))]
        self._lengths.clear()

    def _find_histories(self) -> None:
        """Find lists that have another length than before, or are long."""
        for row, state in self._nested:
            for name, slot in state.items():
                if isinstance(slot, list) and name not in self._histories:
                    before = self._lengths.setdefault((row, name), len(slot))
                    if len(slot) != before or len(slot) > _MOST_NESTED:
                        self._histories.add(name)

    def _inside(self, state: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
        """Name and tensor of what lies in lists and mappings."""
        for name, slot in state.items():
            if _is_nest(slot):
                is_history = isinstance(slot, list) and name in self._histories
                found = _newest_of(slot) if is_history else every_tensor_in(slot, torch.Tensor)
                for path, tensor in islice(found, _MOST_NESTED):
                    yield name + path, tensor


def _state_of(parameter: Tensor, optimizers: Sequence[Any]) -> dict[str, Any]:
    for optimizer in optimizers:
        state: dict[str, Any] | None = optimizer.state.get(parameter)
        if state:
            return state
    return {}


def _is_slot(name: str, value: Any) -> bool:
    """Return whether it is a slot's tensor; the count of steps is recorded as a fact."""
    return isinstance(value, torch.Tensor) and name != "step"


def _is_nest(value: Any) -> bool:
    return isinstance(value, list | tuple | dict)


def _newest_of(history: list[Any]) -> Iterator[tuple[str, Tensor]]:
    """Return what lies in the last entry that holds a tensor."""
    for entry in reversed(history):
        found = [] if entry is None else list(every_tensor_in(entry, torch.Tensor))
        if found:
            return ((f"[-1]{path}", tensor) for path, tensor in found)
    return iter(())


_gradient_of, _rate_of = attrgetter("grad"), itemgetter("lr")


class TorchView(Choosing):
    """The parameters by their sites, in model order; one row each in every table.

    Args:
        report: Called once for a parameter of which something cannot be recorded, with its site and the reason.

    Attributes:
        names: The sites of the parameters.
        gradient_scale: What the optimizer that is stepping will divide the gradients by, when they are still scaled.
    """

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._names: list[str] = []
        self.names: tuple[str, ...] = ()
        self.parameters: list[Tensor] = []
        self._left_out: frozenset[str] = frozenset()
        self._weighed: list[Any] = self.parameters  # with gaps, where some are left out
        self._measured: list[Any] = self.parameters
        self.optimizers: list[Any] = []
        self.stepping: Any = None
        self.gradient_scale: Any = None
        self._report = report
        self._placing = TensorTables(
            place_of,
            self._names,
            report,
            DeviceAccess(is_any_remote, remote, code_on_host, columns_away),
            columns_of,
        )
        self._states = States()

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the parameters, or of the parts of them that this rank holds."""
        return tuple(tuple(local_part(one).shape) for one in self.parameters)

    @property
    def is_away(self) -> bool:
        """Whether any parameter lies on a device that measures by itself."""
        is_any_there = any(map(getattr, self.parameters, repeat("is_cuda"), repeat(False)))
        return is_any_there or tensors.is_any_taken_for_remote

    def add(self, named: Iterable[tuple[str, Tensor]]) -> bool:
        """Add the new ones of these parameters at the end; return whether there were any."""
        known = {id(parameter) for parameter in self.parameters}
        fresh = [(name, one) for name, one in named if id(one) not in known and not _is_unborn(one)]
        self._names += [name for name, _ in fresh]
        self.names = tuple(self._names)
        self.parameters += [one for _, one in fresh]
        if self._left_out:
            self._renew()
        return bool(fresh)

    def _renew(self) -> None:
        self._weighed = with_gaps(self.parameters, self._names, self._left_out, None)
        self._measured = with_gaps(self.parameters, self._names, self._left_out)
        self._states = States()

    def weights(self) -> Arrays:
        """Return where the weights lie now."""
        return self._placing.table(self._weighed, "weight")

    def gradients(self) -> Arrays:
        """Return where the gradients lie now; those of the optimizer that is stepping, if one is."""
        if self.stepping is None or len(self.optimizers) < 2:
            if self.gradient_scale is None:
                return self._placing.table(list(map(_gradient_of, self._measured)), "gradient")
            return self._placing.table([self._gradient(one) for one in self._measured])
        mine = {id(one) for group in self.stepping.param_groups for one in group["params"]}
        return self._placing.table([self._gradient(one) if id(one) in mine else None for one in self._measured])

    def _gradient(self, parameter: Tensor) -> Tensor | None:
        held = parameter.grad
        return held if self.gradient_scale is None or held is None else held / self.gradient_scale

    def arrays(self, subject: str) -> Iterator[tuple[str, NDArray[Any]]]:
        """Site and values of every weight or gradient that is there, for what wants them whole."""
        for name, one in zip(self._names, self.parameters, strict=True):
            tensor = one if subject == "weight" else one.grad
            if tensor is not None and name not in self._left_out:
                try:
                    yield name, array_of(tensor)
                except Unsupported as error:
                    self._report(name, str(error))

    def has_gradients(self) -> bool:
        """Return whether the first few thousand values of any gradient hold one that is not zero.

        Gradients on an accelerator are not looked at, since the training would have to wait for it.
        """
        for gradient in map(_gradient_of, self.parameters):
            if gradient is not None and not is_remote(gradient) and _is_any_nonzero(gradient):
                return True
        return False

    def rows_held(self) -> frozenset[int]:
        """Return the parameters whose gradient, on the host, holds a value that is not zero."""
        held = ((row, one.grad) for row, one in enumerate(self.parameters))
        return frozenset(
            row for row, grad in held if grad is not None and not is_remote(grad) and _is_any_nonzero(grad)
        )

    def rows_of(self, optimizer: Any) -> frozenset[int]:
        """Return the parameters that the optimizer steps."""
        mine = {id(one) for group in optimizer.param_groups for one in group["params"]}
        return frozenset(row for row, one in enumerate(self.parameters) if id(one) in mine)

    def is_cleared(self, optimizer: Any) -> bool:
        """Return whether none of its parameters, of all for None, holds a gradient; on a device any counts as one."""
        groups = [{"params": self.parameters}] if optimizer is None else optimizer.param_groups
        held = (one.grad for group in groups for one in group["params"] if one.grad is not None)
        return not any(is_remote(gradient) or _is_any_nonzero(gradient) for gradient in held)

    def slots(self) -> Mapping[str, Arrays]:
        """Return every slot that holds a tensor of at least one dimension for some parameter."""
        return self._placing.tables(self._states.slots(self._measured, self.optimizers))

    def exchange(self, named: Iterable[tuple[str, Tensor]]) -> None:
        """Give the row of a name to the parameter that has the name now."""
        rows, here = {name: row for row, name in enumerate(self._names)}, {id(one) for one in self.parameters}
        for name, parameter in named:
            if name in rows and id(parameter) not in here and not _is_unborn(parameter):
                self.parameters[rows[name]] = parameter
        if self._left_out:
            self._renew()

    def forget_optimizer(self, optimizer: Any) -> None:
        """Drop an optimizer that steps no more, with its state."""
        self.optimizers[:] = [one for one in self.optimizers if one is not optimizer]
        self._states = States()
        if self.stepping is optimizer:
            self.stepping = None

    def learning_rates(self) -> tuple[float, ...]:
        """Return the rate of every group of every optimizer."""
        rates: list[float] = []
        for optimizer in self.optimizers:
            rates += map(float, map(_rate_of, optimizer.param_groups))
        return tuple(rates)


def _is_unborn(parameter: Tensor) -> bool:
    """Return whether a lazy layer has yet to give the parameter its shape."""
    return isinstance(parameter, torch.nn.parameter.UninitializedTensorMixin)


def _is_any_nonzero(gradient: Tensor) -> bool:
    if gradient.layout is not torch.strided:
        return True
    return bool(local_part(gradient).detach().flatten()[:4096].count_nonzero())
