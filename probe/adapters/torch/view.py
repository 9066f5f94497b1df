"""A torch model's parameters and the optimizers that step them, as the collectors see them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any

import torch
from numpy.typing import NDArray

from ...access.placing import Away, Placing
from ...access.tensors import Tensor, Unsupported
from ...kernels import Arrays
from ..left_out import Choosing, with_gaps
from .memory import array_of, code_on_host, columns_of, place_of
from .parts import is_any_remote, is_remote, local_part, remote
from .states import States

_gradient_of = attrgetter("grad")


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
        self._placing = Placing(place_of, self._names, report, Away(is_any_remote, remote, code_on_host), columns_of)
        self._states = States()

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the parameters, or of the parts of them that this rank holds."""
        return tuple(tuple(local_part(one).shape) for one in self.parameters)

    @property
    def is_away(self) -> bool:
        """Whether any parameter lies on a device that measures by itself."""
        return is_any_remote(self.parameters)

    def add(self, named: Iterable[tuple[str, Tensor]]) -> bool:
        """Whether any of these parameters was new; they join at the end."""
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
        """Where the weights lie now."""
        return self._placing.table(self._weighed, "weight")

    def gradients(self) -> Arrays:
        """Where the gradients lie now; of the optimizer that is stepping, when one is."""
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
        """Whether the first few thousand values of any gradient hold one that is not zero.

        Gradients on an accelerator are not looked at, since the training would have to wait for it.
        """
        held = [one for one in map(_gradient_of, self.parameters) if one is not None and not is_remote(one)]
        return bool(held) and any(map(_is_any_nonzero, held))

    def rows_held(self) -> frozenset[int]:
        """The parameters of which the same is true."""
        held = ((row, one.grad) for row, one in enumerate(self.parameters))
        return frozenset(
            row for row, grad in held if grad is not None and not is_remote(grad) and _is_any_nonzero(grad)
        )

    def rows_of(self, optimizer: Any) -> frozenset[int]:
        """The parameters that the optimizer steps."""
        mine = {id(one) for group in optimizer.param_groups for one in group["params"]}
        return frozenset(row for row, one in enumerate(self.parameters) if id(one) in mine)

    def is_cleared(self, optimizer: Any) -> bool:
        """Whether none of its parameters, of all for None, holds a gradient; on a device any is taken for one."""
        groups = [{"params": self.parameters}] if optimizer is None else optimizer.param_groups
        held = (one.grad for group in groups for one in group["params"] if one.grad is not None)
        return not any(is_remote(gradient) or _is_any_nonzero(gradient) for gradient in held)

    def slots(self) -> Mapping[str, Arrays]:
        """Every slot that holds a tensor of at least one dimension for some parameter."""
        return self._placing.tables(self._states.slots(self._measured, self.optimizers))

    def exchange(self, named: Iterable[tuple[str, Tensor]]) -> None:
        """Nothing; of two parameters of one name the one that is here now has the row."""
        rows, here = {name: row for row, name in enumerate(self._names)}, {id(one) for one in self.parameters}
        for name, parameter in named:
            if name in rows and id(parameter) not in here and not _is_unborn(parameter):
                self.parameters[rows[name]] = parameter
        if self._left_out:
            self._renew()

    def forget_optimizer(self, optimizer: Any) -> None:
        """Nothing; this one steps no more, and nothing of its state is held."""
        self.optimizers[:] = [one for one in self.optimizers if one is not optimizer]
        self._states = States()
        if self.stepping is optimizer:
            self.stepping = None

    def learning_rates(self) -> tuple[float, ...]:
        """The rate of every group of every optimizer."""
        return tuple(float(group["lr"]) for optimizer in self.optimizers for group in optimizer.param_groups)


def _is_unborn(parameter: Tensor) -> bool:
    """Whether a lazy layer has yet to give the parameter its shape."""
    return isinstance(parameter, torch.nn.parameter.UninitializedTensorMixin)


def _is_any_nonzero(gradient: Tensor) -> bool:
    if gradient.layout is not torch.strided:
        return True
    return bool(local_part(gradient).detach().flatten()[:4096].count_nonzero())
