"""`check_causality`: the causality of any model of a known framework, on request."""

import sys
from importlib import import_module
from typing import Any

from ..errors import NotWatchable
from .causality import Causality, Frame, causality_of

_FRAMES = (
    # a model of this class, whose module is loaded already, is called through this frame
    ("torch.nn", "Module", "..adapters.torch.quiet", "TorchFrame"),
    ("mindscope.framework.nn.cell", "Cell", "..adapters.engine.quiet", "EngineFrame"),
)


def check_causality(model: object, *sample: Any, **keywords: Any) -> Causality:  # Any: the model's own arguments
    """Whether any output of the model depends on input at a later position.

    The model is called a few times in evaluation mode, without gradients; training flags, buffers and the generators of
    random numbers are as before afterwards. What a module keeps elsewhere, in plain attributes, is not put back.

    Args:
        model: A torch Module or an engine Cell that answers position by position.
        sample: What the model is called with, as `keywords`. Its first tensor of integers `(batch, positions)`, or of
            reals with more axes, is changed at the first, the middle and the last position.

    Raises:
        NotWatchable: The model is of no known framework.
        NotASequence: The sample has no positions, or the output has not the same.
    """
    for module, kind, place, name in _FRAMES:
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(model, getattr(loaded, kind)):
            frame: Frame = getattr(import_module(place, __package__), name)(model)
            return causality_of(frame, sample, keywords)
    raise NotWatchable(
        f"model must be a torch.nn.Module or a mindscope.framework.nn.Cell, got {type(model).__name__}; "
        f"pass the model itself"
    )


__all__: list[str] = ["check_causality"]
