"""Tells when a script has imported a package, which is not loaded for it before."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ..garbage import uncollected

__all__ = ["ImportWatch"]


class ImportWatch:
    """Calls back once when the package has been imported; at once if it is loaded already.

    A script that sets `OMP_NUM_THREADS` and the like before `import torch` is obeyed only where nobody has loaded torch
    before it.

    Args:
        name: The package.
        imported: What is called behind the package's own import, in the thread that imports it.
    """

    def __init__(self, name: str, imported: Callable[[], object]) -> None:
        self._name, self._imported = name, imported
        if name in sys.modules:
            imported()
        else:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Call back no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what the other finders know of the package, with its loader watched; None of other modules."""
        del path, target
        if fullname != self._name:
            return None
        self.stop()
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader  # its method is replaced for one call
            loader.exec_module = partial(_load, loader, self._imported)
        return spec


def _load(loader: Any, imported: Callable[[], object], module: ModuleType) -> None:
    del loader.exec_module  # so that the loader's own is left, and called
    loader.exec_module(module)
    with uncollected():
        imported()
