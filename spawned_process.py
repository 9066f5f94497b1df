"""Carries `mindscope run` into the processes that a script spawns, as `torch.multiprocessing.spawn` does.

Python hands a spawned process a dictionary to prepare itself with. A recipe travels in it, and arms the child where it
is unpickled. This file imports nothing of ours before the child trains: most spawned processes load data.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import spawn
from typing import Any, Final

__all__ = ["ChildRecipe", "children_watched"]

_log = logging.getLogger(__name__)
_KEY: Final = "mindscope"


@dataclass(frozen=True, slots=True)
class ChildRecipe:
    """What a child needs to record its training.

    Args:
        config: The file of the settings; None for the defaults.
        store: URL or absolute path.
        name: The run's name.
    """

    config: str | None
    store: str
    name: str

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as an expression: a child that cannot import this package must start as if nothing had travelled."""
        package, _, module = __name__.partition(".")
        found = f"__import__('importlib.util', fromlist=['find_spec']).find_spec({package!r})"
        call = f"__import__({__name__!r}, fromlist=[{module!r}]).arm({self.config!r}, {self.store!r}, {self.name!r})"
        return eval, (f"{call} if {found} else None",)


@contextmanager
def children_watched(recipe: ChildRecipe) -> Iterator[None]:
    """Give the recipe to every process that is spawned inside the block."""
    original = spawn.get_preparation_data

    def prepare(name: str) -> dict[str, object]:
        return {**original(name), _KEY: recipe}

    spawn.get_preparation_data = prepare
    try:
        yield
    finally:
        spawn.get_preparation_data = original


def arm(config: str | None, store: str, name: str) -> ChildRecipe:
    """Watch the first model that this process trains; called where the recipe is unpickled."""
    recipe = ChildRecipe(config, store, name)
    spawned = _Spawned(recipe)
    if "torch" in sys.modules:
        spawned.begin()
    else:
        sys.meta_path.insert(0, spawned)
    pass_on = children_watched(recipe)
    pass_on.__enter__()  # for as long as the process lives
    _kept.append(pass_on)
    return recipe


#: Contexts that are open until the process ends.
_kept: list[Any] = []


class _Spawned:
    """Waits, without loading anything, for torch and then for the first module that is trained."""

    def __init__(self, recipe: ChildRecipe) -> None:
        self._recipe = recipe
        self._handle: Any = None

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        """Return the spec of torch, whose loader calls `begin` at its end."""
        del path, target
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            original = loader.exec_module

            def load(module: Any) -> None:
                del loader.exec_module
                original(module)
                self.begin()

            loader.exec_module = load
        return spec

    def begin(self) -> None:
        """Look at every module before its forward."""
        from torch.nn.modules.module import register_module_forward_pre_hook  # noqa: PLC0415  now it is loaded

        self._handle = register_module_forward_pre_hook(self._look)

    def _look(self, module: Any, inputs: object) -> None:
        """Hand over to the finder at the first forward that may be one of a training."""
        torch: Any = sys.modules["torch"]
        if not torch.is_grad_enabled() or not any(parameter.requires_grad for parameter in module.parameters()):
            return
        self._handle.remove()
        try:
            from .watching import watch_child  # noqa: PLC0415  which costs a second

            watch_child(self._recipe, module, inputs)
        except BaseException as error:
            from .probe.guard import belongs_to_training  # noqa: PLC0415  as above

            if belongs_to_training(error):
                raise
            _log.exception("the training of this process is not recorded")
