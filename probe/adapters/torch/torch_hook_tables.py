"""Tables of hooks that leave ours out of everything that is made of a module: pickles, copies, scripts.

A module keeps its hooks in dictionaries among its attributes. Whatever copies or saves it takes them along: the bytes
of a watched module would differ from those of an unwatched one, and name what a loader does not allow.
"""

import sys
from collections import OrderedDict
from collections.abc import Iterator, ValuesView
from typing import Any, Final

import torch

from .torch_hooks import Hook

__all__ = ["hidden_in"]

#: Tables of hooks, and those that say of each hook how it is called.
_FLAGS: Final = {
    "_forward_hooks": ("_forward_hooks_with_kwargs", "_forward_hooks_always_called"),
    "_forward_pre_hooks": ("_forward_pre_hooks_with_kwargs",),
}
#: The module of torch that asks for every hook of a module to compile it.
_SCRIPTING: Final = "torch.jit._recursive"


class _HookTable(OrderedDict[int, Any]):
    """The hooks of a module; copies and pickles are plain ones with the hooks of others."""

    __slots__ = ()

    def foreign(self) -> Iterator[tuple[int, Any]]:
        """Yield the entries of others."""
        return ((number, hook) for number, hook in self.items() if not isinstance(hook, Hook))

    def values(self) -> ValuesView[Any]:  # type: ignore[override]  # OrderedDict's own type is no less general
        """Return the hooks; those of others alone where torch compiles a module with them."""
        if sys._getframe(1).f_globals.get("__name__") == _SCRIPTING:
            return OrderedDict(self.foreign()).values()
        return super().values()

    def copy(self) -> OrderedDict[int, Any]:  # type: ignore[override]
        """Return a plain table with the entries of others."""
        return OrderedDict(self.foreign())

    __copy__ = copy

    def __reduce__(self) -> tuple[Any, ...]:
        return OrderedDict, (), None, None, iter([*self.foreign()])


class _FlagTable(_HookTable):
    """Says of each hook how it is called."""

    __slots__ = ("hooks",)

    def __init__(self, hooks: _HookTable) -> None:
        super().__init__()
        self.hooks = hooks

    def foreign(self) -> Iterator[tuple[int, Any]]:
        """Yield the entries of others' hooks."""
        return ((number, flag) for number, flag in self.items() if not isinstance(self.hooks.get(number), Hook))


def hidden_in(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module, with tables that keep hooks of ours to themselves, as far as it has no hooks of others yet.

    A table that holds hooks stays as it is: the handles of these hooks refer to it.
    """
    own = vars(module)
    for name, flags in _FLAGS.items():
        tables = [own.get(table) for table in (name, *flags)]
        if all(type(table) is OrderedDict and not table for table in tables):
            hooks = own[name] = _HookTable()
            for flag in flags:
                own[flag] = _FlagTable(hooks)
    return module
