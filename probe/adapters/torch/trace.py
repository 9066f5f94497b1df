"""Shows the operations of a torch model's forward and backward passes to a `NanTrace`, by torch's dispatch mode."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from ...nan_trace import NanTrace
from ...recording.recorder import Recorder
from ...taps.handles import Several
from .hooks import Hook
from .memory import place_of
from .sites import ModuleSites

_MOST_NODES = 64


class _Mode(TorchDispatchMode):  # type: ignore[misc]  # torch's types are not looked at
    """Runs every operation as it is, and shows what went in and came out."""

    def __init__(self, trace: NanTrace) -> None:
        super().__init__()
        self._trace = trace

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of the operation."""
        result = func(*args, **(kwargs or {}))
        if self._trace.is_looking:
            inputs = (x for value in (*args, *(kwargs or {}).values()) for x in _floating(value))
            self._trace.operation(str(func), inputs, _floating(result))
        return result


class TorchTracer:
    """Traces a model until it is removed.

    What runs inside the model's forward, between a forward with gradients and its backward pass, and inside `backward`
    is seen operation by operation. Dispatch modes of the user's own are not crossed: where one is open as the forward
    begins, nothing is seen between forward and backward, and a loss that is bad is told by the operations that autograd
    has recorded for it; from inside of one that was entered later, ours does not leave.
    """

    def __init__(self, model: Any, recorder: Recorder) -> None:
        self.trace = NanTrace(recorder, place_of, model.parameters, (str(Path(torch.__file__).parent),))
        self._mode = _Mode(self.trace)
        self._is_open = self._is_alone = False
        self._places = ModuleSites(model)
        self._sites: dict[str, Several] = {}
        self._follow(self._places.modules)
        begin = model.register_forward_pre_hook(Hook(self._begin))
        self._model = Several([begin, model.register_forward_hook(Hook(self._end), always_call=True)])

    def remove(self) -> None:
        """Nothing; no operation is seen any more."""
        for handle in (self._model, *self._sites.values()):
            handle.remove()
        self.rest()

    def rest(self) -> None:
        """Nothing; operations are not seen until the next forward."""
        if self._is_open and _get_current_dispatch_mode() is self._mode:
            self._is_open = False
            self._mode.__exit__(None, None, None)

    @contextmanager
    def backward(self, roots: Any, loss: float | None) -> Iterator[None]:
        """The operations of a backward pass are seen inside."""
        if loss is not None and loss - loss != 0.0:  # NaN or infinite
            self.trace.loss_is_bad(list(_operations(roots)))
        self.trace.phase = "backward"
        self.trace.sites.clear()
        self._look()
        try:
            yield
        finally:
            self.rest()

    def _follow(self, changed: Iterable[str]) -> None:
        """Nothing; at these sites there are other modules than before, or none any more."""
        modules = self._places.modules
        for site in changed:
            if site in self._sites:
                self._sites.pop(site).remove()
            if site in modules and self._places.is_visible(modules[site]):
                module = self._places.hooked(modules[site])
                before = module.register_forward_pre_hook(Hook(self._entering(site)), prepend=True)
                self._sites[site] = Several([before, module.register_forward_hook(Hook(self._left), always_call=True)])

    def _entering(self, site: str) -> Callable[[Any, Any], None]:
        def enter(_module: Any, _inputs: Any) -> None:
            self.trace.sites.append(site)

        return enter

    def _left(self, _module: Any, _inputs: Any, _output: Any) -> None:
        if self.trace.sites:
            self.trace.sites.pop()

    def _begin(self, _module: Any, _inputs: Any) -> None:
        if self._places.has_changed():
            self._follow(self._places.look())
        self.trace.phase = "forward"
        self._look()

    def _end(self, _module: Any, _inputs: Any, _output: Any) -> None:
        if torch.is_grad_enabled() and self._is_alone:
            self.trace.phase = "loss"
        else:
            self.rest()

    def _look(self) -> None:
        if not self._is_open:
            self._is_open, self._is_alone = True, _get_current_dispatch_mode() is None
            self._mode.__enter__()


def _floating(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _floating(part)


def _operations(root: Any) -> Iterator[str]:
    """Names of the operations that made a tensor, nearest last, from the nodes of autograd."""
    node = root.grad_fn if isinstance(root, torch.Tensor) else None
    seen: list[str] = []
    waiting = [node] if node is not None else []
    while waiting and len(seen) < _MOST_NODES:
        one = waiting.pop(0)
        seen.append(type(one).__name__.removesuffix("0").removesuffix("Backward"))
        waiting += [before for before, _ in one.next_functions if before is not None]
    return reversed(seen)
