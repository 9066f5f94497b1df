"""A MindSpore model's parameters and the optimizers that step them: groups, rates and slots."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mindspore
from numpy.typing import NDArray

from ....storage.records import Json
from ....storage.run_info import OptimizerInfo
from ...kernels import Arrays
from ...tensor_access import Tensor, TensorTables, Unsupported
from ..parameter_selection import with_gaps
from .mindspore_tensors import array_of, place_of


@dataclass(frozen=True, slots=True, eq=False)
class OptimizerGroup:
    """Parameters that are stepped with the same options.

    Args:
        rate: A number, a tensor of one, or a schedule: a cell that makes one from the number of the step.
        options: Plain values by name.
    """

    parameters: tuple[Tensor, ...]
    rate: "mindspore.nn.Cell | mindspore.Tensor | float"
    options: Mapping[str, Json]


def is_optimizer(value: object) -> bool:
    """Return whether this is an optimizer of `mindspore.nn`, or of `mindspore.mint.optim` and `experimental.optim`."""
    return isinstance(value, mindspore.nn.Optimizer | mindspore.experimental.optim.Optimizer)


def groups_of(optimizer: mindspore.nn.Cell) -> tuple[OptimizerGroup, ...]:
    """Return the groups in the order of their first parameters.

    Those of `mindspore.nn` keep rate and decay by parameter and forget the groups: equal ones are one group.
    """
    wrapped = getattr(optimizer, "opt", None)
    if isinstance(wrapped, mindspore.nn.Optimizer):  # LARS has its own rate, which is always 0
        return groups_of(wrapped)
    if hasattr(optimizer, "param_groups"):
        return tuple(
            OptimizerGroup(tuple(group["params"]), group["lr"], _plain(group)) for group in optimizer.param_groups
        )
    parameters, common = tuple(optimizer.parameters), _plain(getattr(optimizer, "init_args", {}))
    rates = optimizer.learning_rate
    if not optimizer.is_group:
        rate = rates[0] if optimizer.is_group_lr else rates
        return (OptimizerGroup(parameters, rate, {**common, "weight_decay": _number(optimizer.weight_decay)}),)
    decays = optimizer.group_weight_decay
    members: dict[tuple[int, Json], list[int]] = {}
    for index in range(len(parameters)):
        rate = rates[index] if optimizer.is_group_lr else rates
        members.setdefault((id(rate), _number(decays[index])), []).append(index)
    return tuple(
        OptimizerGroup(
            tuple(parameters[index] for index in indices),
            rates[indices[0]] if optimizer.is_group_lr else rates,
            {**common, "weight_decay": decay},
        )
        for (_, decay), indices in members.items()
    )


def rate_of(group: OptimizerGroup, optimizer: mindspore.nn.Cell) -> float:
    """Return the rate of the next step; calling a schedule does not advance it."""
    rate = group.rate(optimizer.global_step) if isinstance(group.rate, mindspore.nn.Cell) else group.rate
    return float(rate.asnumpy().item() if isinstance(rate, mindspore.Tensor) else rate)


def slots_of(optimizer: mindspore.nn.Cell) -> dict[str, dict[int, Tensor]]:
    """Return slots by the optimizer's own name for them: `id` of a parameter -> its slot.

    A slot is a tuple of parameters as long as the optimizer's own, or as a group's own, one for each of them.
    """
    found: dict[str, dict[int, Tensor]] = {}
    parameters = tuple(optimizer.parameters)
    for _, cell in optimizer.cells_and_names():  # LARS holds the wrapped optimizer as a cell
        _take_slots(found, vars(cell).items(), parameters)
    for group in getattr(optimizer, "param_groups", ()):
        _take_slots(found, group.items(), tuple(group["params"]))
    return found


def optimizer_infos(optimizers: Iterable[mindspore.nn.Cell]) -> tuple[OptimizerInfo, ...]:
    """Return class and options of every optimizer; options that are no plain values are left out."""
    return tuple(
        OptimizerInfo(
            type(optimizer).__name__,
            tuple({"lr": rate_of(group, optimizer), **group.options} for group in groups_of(optimizer)),
        )
        for optimizer in optimizers
    )


def _take_slots(
    found: dict[str, dict[int, Tensor]], named: Iterable[tuple[str, object]], parameters: Sequence[Tensor]
) -> None:
    own = {id(parameter) for parameter in parameters}
    for name, value in named:
        if not isinstance(value, tuple | list) or len(value) != len(parameters):
            continue
        if all(isinstance(slot, mindspore.Parameter) and id(slot) not in own and slot.ndim for slot in value):
            slots = found.setdefault(name, {})
            slots.update((id(parameter), slot) for parameter, slot in zip(parameters, value, strict=True))


def _number(value: Any) -> Json:
    """Return the number, None of a schedule."""
    if isinstance(value, mindspore.nn.Cell):
        return None
    return float(value.asnumpy().item()) if isinstance(value, mindspore.Tensor) else value


def _plain(options: Mapping[str, object]) -> dict[str, Json]:
    return dict(_plain_items(options))


def _plain_items(options: Mapping[str, object]) -> Iterator[tuple[str, Json]]:
    for name, value in options.items():
        if name == "lr" or (
            isinstance(value, tuple | list) and not all(isinstance(item, int | float) for item in value)
        ):
            continue
        if isinstance(value, tuple | list):
            yield name, list(value)
        elif value is None or isinstance(value, bool | int | float | str):
            yield name, value


def describe(parameter: Tensor) -> tuple[tuple[int, ...], str, int]:
    """Return shape, dtype and memory address of a parameter."""
    return tuple(parameter.shape), str(parameter.dtype).lower(), parameter.data_ptr() or id(parameter)


def stepping_groups(optimizers: Iterable[mindspore.nn.Cell]) -> dict[int, tuple[tuple[int, int], ...]]:
    """Return (optimizer, group) numbers of the last group that holds a parameter, by the parameter's id."""
    return {
        id(parameter): ((number, group_number),)
        for number, optimizer in enumerate(optimizers)
        for group_number, group in enumerate(groups_of(optimizer))
        for parameter in group.parameters
    }


class MindSporeView:
    """The parameters by their sites, in model order; each has one row in every table.

    Args:
        report: Called once for a parameter of which something cannot be recorded, with its site and the reason.
    """

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._names: list[str] = []
        self.parameters: list[Tensor] = []
        self._left_out: frozenset[str] = frozenset()
        self._measured: list[Any] = self.parameters  # with a gap for each one that is left out
        self.optimizers: list[mindspore.nn.Cell] = []
        self.stepping: mindspore.nn.Cell | None = None
        self.given: Sequence[Tensor] = ()
        self._report = report
        self._placing = TensorTables(place_of, self._names, report)
        self._slots: dict[str, list[Tensor | None]] = {}
        self._slots_known = 0

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
        return tuple(tuple(parameter.shape) for parameter in self.parameters)

    def add(self, named: Iterable[tuple[str, Tensor]]) -> bool:
        """Add these parameters at the end; return whether any of them was new."""
        known = {id(parameter) for parameter in self.parameters}
        fresh = [(name, parameter) for name, parameter in named if id(parameter) not in known]
        self._names += [name for name, _ in fresh]
        self.parameters += [parameter for _, parameter in fresh]
        return bool(fresh)

    def choose(self, named: Iterable[tuple[str, Tensor]]) -> None:
        """Record only these from now on; the rows of others stay, and are empty."""
        chosen = dict(named)
        self._left_out = frozenset(self._names) - chosen.keys()
        self.add(chosen.items())
        self._measured = with_gaps(self.parameters, self._names, self._left_out, None)
        self._slots_known = 0

    def weights(self) -> Arrays:
        """Return where the weights lie now."""
        return self._placing.table(self._measured)

    def gradients(self) -> Arrays:
        """Return where the gradients lie that the stepping optimizer was given; MindSpore's parameters hold none."""
        gradients_by_id = self._given_gradients()
        return self._placing.table([gradients_by_id.get(id(parameter)) for parameter in self._measured])

    def arrays(self, subject: str) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield site and values of every weight or gradient that is there."""
        gradients_by_id = self._given_gradients()
        for name, parameter in zip(self._names, self.parameters, strict=True):
            tensor = parameter if subject == "weight" else gradients_by_id.get(id(parameter))
            if tensor is not None and name not in self._left_out:
                try:
                    yield name, array_of(tensor)
                except Unsupported as error:
                    self._report(name, str(error))

    def has_gradients(self) -> bool:
        """Return False: gradients are handed from function to function, none is left of an earlier step."""
        return False

    def rows_held(self) -> frozenset[int]:
        """Return no rows, likewise."""
        return frozenset()

    def rows_of(self, _optimizer: mindspore.nn.Cell) -> frozenset[int]:
        """Return no rows, for no gradient is ever left."""
        return frozenset()

    def is_cleared(self, _optimizer: mindspore.nn.Cell) -> bool:
        """Return False: the loop sums what is summed, and every pass counts."""
        return False

    def slots(self) -> dict[str, Arrays]:
        """Return every slot of every optimizer, by the optimizer's own name."""
        if self._slots_known != len(self.optimizers):  # an optimizer makes all its slots in its constructor
            self._slots_known = len(self.optimizers)
            slots_by_name: dict[str, dict[int, Tensor]] = {}
            for optimizer in self.optimizers:
                for name, slots in slots_of(optimizer).items():
                    slots_by_name.setdefault(name, {}).update(slots)
            self._slots = {
                name: [slots.get(id(parameter)) for parameter in self._measured]
                for name, slots in slots_by_name.items()
            }
        return {name: self._placing.table(slots) for name, slots in self._slots.items()}

    def learning_rates(self) -> tuple[float, ...]:
        """Return the rate of every group of every optimizer."""
        return tuple(rate_of(group, optimizer) for optimizer in self.optimizers for group in groups_of(optimizer))

    def _given_gradients(self) -> dict[int, Tensor]:
        if self.stepping is None:
            return {}
        return {id(parameter): tensor for parameter, tensor in zip(self.stepping.parameters, self.given, strict=False)}
