"""What torch's modules get as hooks: silent while torch compiles, and inert in copies of the module.

`torch.compile` traces hooks along with the module that has them. Ours read memory, which would break the graph, so that
inside of a compiled region they do nothing: the region is one graph, as it is without a monitor.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch.compiler import is_compiling, is_dynamo_compiling

#: Its flag says whether torch exports; `is_compiling` says both, at twice the cost, which every module pays.
compiler = vars(torch.compiler)
is_traced = torch._C._get_tracing_state  # by `torch.jit.trace`, whose tensors have no sizes to read


class Hook:
    """A hook that works on its own module only.

    A copy of the module, deep or pickled, has a function of Python's own in its place, which takes any arguments and
    does nothing: what was pickled while a monitor watched can be loaded where there is none.
    """

    __slots__ = ("_work",)

    def __init__(self, work: Callable[..., None]) -> None:
        self._work = work

    def __call__(self, *arguments: Any) -> None:
        """Nothing; the hook has done its work, if torch is not compiling."""
        if not (is_dynamo_compiling() or compiler.get("_is_compiling_flag") or is_traced()):
            self._work(*arguments)

    def __deepcopy__(self, _memo: object) -> Callable[..., None]:
        return nullcontext().__exit__

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")


class OpeningHook(Hook):
    """The hook before a whole model's forward; of a compiled one it learns only that there was a forward.

    Attributes:
        was_compiled: Whether a compiled forward has run with gradients on; torch sets it after every such forward,
            since it keeps what a graph does to Python's objects.
    """

    __slots__ = ("was_compiled",)

    def __init__(self, work: Callable[..., None]) -> None:
        super().__init__(work)
        self.was_compiled = False

    def __call__(self, *arguments: Any) -> None:
        """Nothing; the forward has begun, or it is noted that a compiled one runs."""
        if is_compiling():
            if torch.is_grad_enabled():
                self.was_compiled = True
            return
        self._work(*arguments)


class ForwardHandle:
    """The handle of a forward hook of ours; what it has taken off it can put back, before the hooks of others."""

    __slots__ = ("_hook", "_module", "_number")

    def __init__(self, module: Any, hook: Hook) -> None:
        self._module, self._hook = module, hook
        self._number: int = module.register_forward_hook(hook).id

    def put_back(self) -> "ForwardHandle":
        """Itself; the hook is on the module again, without a new handle."""
        hooks = self._module._forward_hooks
        hooks[self._number] = self._hook
        hooks.move_to_end(self._number, last=False)
        return self

    def remove(self) -> None:
        """Nothing; the hook is off."""
        self._module._forward_hooks.pop(self._number, None)
