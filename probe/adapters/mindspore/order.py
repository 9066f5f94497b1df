"""How forwards of a MindSpore model are followed for the order of its cells: by hooks that go while they are called."""

from collections.abc import Callable
from typing import Any

from .hooks import Hook


class RetiringHooks:
    """Forward hooks that come off only as the step ends: MindSpore loops over the hooks' own dict."""

    def __init__(self) -> None:
        self._retired: list[Any] = []

    def register(self, cell: Any, hook: Callable[[Any, Any, Any], None]) -> "_Retiring":
        """The handle of a forward hook that sees keyword arguments among the inputs."""
        called = Hook(lambda one, inputs, options, output: hook(one, (inputs, options), output))
        return _Retiring(called, cell.register_forward_hook(called, with_kwargs=True), self._retired)

    def remove(self) -> None:
        """Nothing; hooks whose handles have been removed are off the cells."""
        for handle in self._retired:
            handle.remove()
        self._retired.clear()


class _Retiring:
    """A handle that silences its hook and leaves the removal for later."""

    def __init__(self, hook: Hook, handle: Any, retired: list[Any]) -> None:
        self._hook, self._handle, self._retired = hook, handle, retired

    def remove(self) -> None:
        """Nothing; the hook does nothing from now on."""
        self._hook.work = _ignore
        self._retired.append(self._handle)


def _ignore(*_: Any) -> None:
    return None
