"""A MindSpore model's parameters and the optimizers that step them, as the collectors see them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from ...access.placing import Placing
from ...access.tensors import Tensor, Unsupported
from ...kernels import Arrays
from ..left_out import with_gaps
from .memory import array_of, place_of
from .optimizers import groups_of, rate_of, slots_of


class MindSporeView:
    """The parameters by their sites, in model order; one row each in every table.

    Args:
        report: Called once for a parameter of which something cannot be recorded, with its site and the reason.
    """

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._names: list[str] = []
        self.parameters: list[Tensor] = []
        self._left_out: frozenset[str] = frozenset()
        self._measured: list[Any] = self.parameters  # with gaps, where some are left out
        self.optimizers: list[Any] = []
        self.stepping: Any = None
        self.given: Sequence[Any] = ()
        self._report = report
        self._placing = Placing(place_of, self._names, report)
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
        """Whether any of these parameters was new; they join at the end."""
        known = {id(parameter) for parameter in self.parameters}
        fresh = [(name, one) for name, one in named if id(one) not in known]
        self._names += [name for name, _ in fresh]
        self.parameters += [one for _, one in fresh]
        return bool(fresh)

    def choose(self, named: Iterable[tuple[str, Tensor]]) -> None:
        """Nothing; only these are recorded from now on; the rows of others stay, and are empty."""
        chosen = dict(named)
        self._left_out = frozenset(self._names) - chosen.keys()
        self.add(chosen.items())
        self._measured = with_gaps(self.parameters, self._names, self._left_out, None)
        self._slots_known = 0

    def weights(self) -> Arrays:
        """Where the weights lie now."""
        return self._placing.table(self._measured)

    def gradients(self) -> Arrays:
        """Where the gradients lie that the stepping optimizer was given; MindSpore's parameters hold none."""
        given = self._given()
        return self._placing.table([given.get(id(parameter)) for parameter in self._measured])

    def arrays(self, subject: str) -> Iterator[tuple[str, NDArray[Any]]]:
        """Site and values of every weight or gradient that is there, for what wants them whole."""
        given = self._given()
        for name, one in zip(self._names, self.parameters, strict=True):
            tensor = one if subject == "weight" else given.get(id(one))
            if tensor is not None and name not in self._left_out:
                try:
                    yield name, array_of(tensor)
                except Unsupported as error:
                    self._report(name, str(error))

    def has_gradients(self) -> bool:
        """Never: gradients are handed from function to function, none is left of an earlier step."""
        return False

    def rows_held(self) -> frozenset[int]:
        """None, likewise."""
        return frozenset()

    def rows_of(self, _optimizer: Any) -> frozenset[int]:
        """None, for none is ever left."""
        return frozenset()

    def is_cleared(self, _optimizer: Any) -> bool:
        """Never: what is summed is summed by the loop, and every pass counts."""
        return False

    def slots(self) -> dict[str, Arrays]:
        """Every slot of every optimizer, by the optimizer's own name."""
        if self._slots_known != len(self.optimizers):  # they make all of them when they are made themselves
            self._slots_known = len(self.optimizers)
            held: dict[str, dict[int, Tensor]] = {}
            for optimizer in self.optimizers:
                for name, slots in slots_of(optimizer).items():
                    held.setdefault(name, {}).update(slots)
            self._slots = {name: [slots.get(id(one)) for one in self._measured] for name, slots in held.items()}
        return {name: self._placing.table(slots) for name, slots in self._slots.items()}

    def learning_rates(self) -> tuple[float, ...]:
        """The rate of every group of every optimizer."""
        return tuple(rate_of(group, optimizer) for optimizer in self.optimizers for group in groups_of(optimizer))

    def _given(self) -> dict[int, Any]:
        if self.stepping is None:
            return {}
        return {id(one): tensor for one, tensor in zip(self.stepping.parameters, self.given, strict=False)}
