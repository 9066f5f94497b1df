"""In which order the modules of a model are called, and whose outputs each of them consumes."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...storage.run import ModuleInfo
from ..access.tensors import Access
from .trace import CallTrace


class CallOrder:
    """Follows forwards until the order is known, and again when the model has got other modules.

    Args:
        modules: By site, as they are whenever a forward begins to be followed.
        register: Puts a forward hook `(module, inputs, output)` on a module and returns its handle.
        children: What a module holds itself.
        known: Called when the order is.

    Attributes:
        trace: What follows.
        is_known: Whether it has come to its end.
    """

    def __init__(
        self,
        modules: Mapping[str, Any],
        access: Access,
        *,
        register: Callable[[Any, Any], Any],
        children: Callable[[Any], Iterable[Any]],
        known: Callable[[], None],
    ) -> None:
        self._modules, self._access, self._register = modules, access, register
        self._children, self._known = children, known
        self.begin()

    def begin(self) -> None:
        """Nothing; the next forward is followed."""
        self.is_known = False
        self.trace = CallTrace(self._modules, self._access, self._register)

    def finish(self) -> None:
        """Nothing; what has been called is all that ever is: a model may be only a list of parts."""
        self.trace.finish()

    def step_ends(self) -> None:
        """Nothing; where a forward has been followed to its end, the order is known."""
        if self.trace.is_complete and not self.is_known:
            self.is_known = True
            self._known()

    def stop(self) -> None:
        """Nothing; no forward is followed any more."""
        self.trace.stop()

    def modules(self) -> tuple[ModuleInfo, ...]:
        """The modules in the order of their first calls, as far as known."""
        return self.trace.modules(self._children)
