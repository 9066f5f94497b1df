"""Adapters, one per framework; each is imported only when it is needed for a model of its framework."""

import sys
from importlib import import_module
from typing import cast

from ..errors import NotWatchable
from .framework_adapter import Adapter

_FRAMEWORKS = (
    # framework, module, class of its models, and the adapter that watches them; the module must be loaded already
    ("torch", "torch.nn", "Module", ".torch.torch_adapter", "TorchAdapter"),
    ("mindspore", "mindspore.nn", "Cell", ".mindspore.mindspore_adapter", "MindSporeAdapter"),
    ("mindscope", "mindscope.framework.nn.cell", "Cell", ".engine.engine_adapter", "EngineAdapter"),
)


def adapter_for(model: object, optimizers: tuple[object, ...] = ()) -> Adapter:
    """Return the adapter that watches this model.

    Raises:
        NotWatchable: The model or an optimizer is none of a framework that is known and loaded.
    """
    for _, module, kind, adapter, name in _FRAMEWORKS:
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(model, getattr(loaded, kind)):
            return cast("Adapter", getattr(import_module(adapter, __name__), name)(model, optimizers))
    raise NotWatchable(
        "model must be a torch.nn.Module, a mindspore.nn.Cell or a mindscope.framework.nn.Cell, "
        f"got {type(model).__module__}."
        f"{type(model).__qualname__}; pass the model itself, not its output or its parameters"
    )


__all__ = ["Adapter", "adapter_for"]
