"""Sites of a torch model: its modules and parameters by the names they have without wrappers.

`torch.compile` and torch's checkpoint wrapper put a module around a module, and their own word into every name below.
The sites stay what they were: a run of a compiled model can be compared with one of the model itself.
"""

from collections.abc import Iterator
from typing import Any

import torch

_WRAPPERS = ("_orig_mod", "_checkpoint_wrapped_module")


class ModuleSites:
    """The modules of a model by site.

    Attributes:
        modules: The modules themselves, never a wrapper.
    """

    def __init__(self, model: Any) -> None:
        self.modules: dict[str, Any] = {}
        self._outermost: dict[int, Any] = {}
        outermost: dict[str, Any] = {}
        for name, module in model.named_modules():
            site = _without_wrappers(name)
            self._outermost[id(module)] = outermost.setdefault(site, module)
            self.modules[site] = module

    def hooked(self, module: Any) -> Any:
        """Where the hooks of a module go: on the outermost of its wrappers, whose call nothing compiles away."""
        return self._outermost.get(id(module), module)

    def entrances(self) -> Iterator[Any]:
        """The modules whose calls are forwards of the model: itself, or the parts of one that only lists them."""
        waiting = [self.modules[""]]
        while waiting:
            module = waiting.pop(0)
            if type(module).forward is torch.nn.Module.forward and any(True for _ in module.children()):
                waiting += module.children()
            else:
                yield self.hooked(module)


def parameters_of(model: Any) -> Iterator[tuple[str, Any]]:
    """Site and parameter, in model order, each parameter once."""
    for name, parameter in model.named_parameters():
        yield _without_wrappers(name), parameter


def _without_wrappers(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)
