"""Which of two orders of evaluation takes less memory: the graph's own, or the one that is scheduled for memory."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from ...compiler.passes.schedule import schedule
from ...ir import Apply, Node
from .listing import Lowered
from .loops import Loop
from .plan import plan_memory

__all__ = ["Kernels", "no_kernel", "planned_bytes", "smaller_order"]

#: What makes the kernel of a loop, given which outputs lie in which inputs and how its arrays are laid out.
Kernels: TypeAlias = Callable[[Loop, Mapping[int, int], Sequence[tuple[str, int]]], Callable[..., None]]


def smaller_order(
    order: Sequence[Apply],
    result: Node,
    is_view: Callable[[Apply], bool],
    lowered: Callable[[Sequence[Apply]], Lowered],
) -> Sequence[Apply]:
    """The given order itself, or the scheduled one where its planned memory is smaller.

    Args:
        order: An order that works.
        result: What is returned.
        is_view: Whether an application may lie in the memory of its arguments.
        lowered: The code for an order; only its memory is looked at.
    """
    other = schedule(order, result, is_view)
    if other == tuple(order):
        return order
    return other if planned_bytes(lowered(other)) < planned_bytes(lowered(order)) else order


def planned_bytes(lowered: Lowered) -> int:
    """Bytes that a call takes: the common block, and the results."""
    results = sum(b.nbytes for b in lowered.buffers if b.kind == "output")
    return plan_memory([b for b in lowered.buffers if b.kind == "planned"], results).size + results


def no_kernel(loop: Loop, in_place: Mapping[int, int], layouts: Sequence[tuple[str, int]]) -> Callable[..., None]:
    """Something in the place of a kernel, which takes long to compile, where only the memory is of interest."""
    del in_place, layouts

    def never(*_: object) -> None:
        raise AssertionError(f"the plan of {loop.fused.name} is not to be run")

    return never
