"""What a capture gives: the graph, what must hold for it, and what is done around its runs; or why there is none."""

from collections.abc import Callable
from typing import NamedTuple

from ..ir import Graph
from ..random import Key
from ..tensor import Tensor
from .guards import Guard
from .signature import ArgumentStructure

__all__ = ["Action", "Apart", "Captured", "SetGrad"]


class Action(NamedTuple):
    """Something done after each run of a graph, such as the step of an optimizer.

    Attributes:
        function: Called with tensors.
        size: With how many: the graph returns them behind its outputs, those of the first action first.
    """

    function: Callable[..., object]
    size: int


class Apart(Exception):
    """A function that does not become one graph, and what runs it instead.

    Attributes:
        make: From the options of the compiler to a function of `(arguments, options)` of a call.
    """

    def __init__(self, reason: str, make: Callable[..., Callable[..., object]]) -> None:
        super().__init__(reason)
        self.make = make


class SetGrad:
    """The action that makes a tensor the `.grad` of a leaf; without one it clears it."""

    __slots__ = ("_leaf",)

    def __init__(self, leaf: Tensor) -> None:
        self._leaf = leaf

    def __call__(self, *gradient: Tensor) -> None:
        """Set the gradient of the leaf to this one."""
        self._leaf._grad = gradient[0] if gradient else None


class Captured(NamedTuple):
    """What every capture mode gives.

    Attributes:
        graph: Its parameters are the tensors of the arguments, then the keys, then the weights; it returns one flat
            tuple, the outputs and then what the actions are called with.
        structure: How the outputs are nested.
        guards: What must still hold outside of the arguments.
        keys: Functions that give the keys of a run, in the order of their parameters.
        actions: What to do after a run.
    """

    graph: Graph
    structure: ArgumentStructure
    guards: tuple[Guard, ...] = ()
    keys: tuple[Callable[[], Key], ...] = ()
    actions: tuple[Action, ...] = ()
