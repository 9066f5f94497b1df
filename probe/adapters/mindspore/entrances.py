"""What sees forwards of a whole MindSpore model begin: one hook, in front of all others there."""

from collections.abc import Callable, Mapping
from typing import Any

from .hooks import Hook
from .module_hooks import ModuleHooks


def watch_entrance(
    model: Any, opens: Callable[[], None], hooks: ModuleHooks, batches: Callable[..., None] | None
) -> Any:
    """The handle of the hook before the model's forward.

    Args:
        opens: Comes first; may put hooks on and off, but none before the model's own call, which runs then.
        hooks: See the model's own inputs, where these are watched.
        batches: Sees what the model is called with; None for nobody.
    """

    def enter(called: Any, inputs: Any, options: Mapping[str, Any]) -> None:
        opens()
        hooks.enter_model(called, inputs, options)
        if batches is not None:
            batches(called, inputs, options)

    return model.register_forward_pre_hook(Hook(enter), with_kwargs=True)
