"""Does what a module makes of a value reach a loss, or does the value itself go on in its place?"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from .check_result import CheckResult, broken

REACHES: Final = "outputs_reach_a_loss"
_CLAIM: Final = "what a module makes of its input is used where the input is"
#: Nodes of a graph that are visited, and calls of one module that are kept. Our choice.
_MOST_NODES, _MOST_CALLS = 20_000, 4


@dataclass(slots=True)
class _Call:
    """A call of a module: the nodes of its input, of the output of the same shape, and of its other outputs."""

    given: Any
    made: Any
    others: frozenset[Any]
    shape: tuple[int, ...]
    is_used: bool = False
    is_replaced: bool = False


@dataclass(slots=True)
class DroppedOutputs:
    """Calls of modules of the program that return several tensors, the first of which is shaped as the input."""

    calls: dict[int, list[_Call]] = field(default_factory=dict)

    def called(self, module: torch.nn.Module, given: Any, output: Any) -> None:
        """Note a call with gradients.

        Args:
            given: The first tensor that the module was given.
            output: What it returned. Torch's own modules are left out: of recurrent ones often only the state is used.
        """
        if type(module).__module__.startswith("torch.") or not isinstance(output, tuple | list) or len(output) < 2:
            return
        made = output[0]
        rest = [one for one in output[1:] if isinstance(one, torch.Tensor) and one.grad_fn is not None]
        is_like = isinstance(made, torch.Tensor) and isinstance(given, torch.Tensor) and made.shape == given.shape
        if not is_like or not rest or made.dim() < 2 or None in (made.grad_fn, given.grad_fn):
            return
        calls = self.calls.setdefault(id(module), [])
        if len(calls) < _MOST_CALLS and made.grad_fn is not given.grad_fn:
            others = frozenset(one.grad_fn for one in rest)
            calls.append(_Call(given.grad_fn, made.grad_fn, others, tuple(made.shape)))

    def read(self, root: torch.Tensor) -> None:
        """Look in the graph of a loss for what the modules have made, and for their inputs beside them."""
        waiting = [call for calls in self.calls.values() for call in calls if not call.is_used]
        if not waiting:
            return
        reached = _reached(root.grad_fn, ())
        for call in waiting:
            call.is_used |= call.made in reached or len(reached) >= _MOST_NODES
            if not call.is_used and not call.others.isdisjoint(reached):
                call.is_replaced |= call.given in _reached(root.grad_fn, call.others)

    def results(self, sites: Mapping[int, str]) -> Iterator[tuple[str, CheckResult]]:
        """Yield site and result of modules of whose calls in this step none was used, and each input was."""
        for number, calls in self.calls.items():
            if number in sites and all(call.is_replaced and not call.is_used for call in calls):
                yield sites[number], _dropped(sites[number], calls)


def _dropped(site: str, calls: Sequence[_Call]) -> CheckResult:
    words = (
        f"{site or 'the module'} makes {calls[0].shape} of its input of the same shape, and something else: no loss of "
        "the step reaches what it makes, but a loss reaches the input itself, past the module"
    )
    return broken(REACHES, _CLAIM, words, subject=site, calls=len(calls))


def _reached(root: Any, ends: Collection[Any]) -> set[Any]:
    """Return the nodes of a graph behind the root, without those behind the ends."""
    waiting, seen = [root], set[Any]()
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if node is not None and node not in seen and node not in ends:
            seen.add(node)
            waiting += [before for before, _ in node.next_functions]
    return seen
