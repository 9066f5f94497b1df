"""What sees forwards of a whole torch model begin, in front of all other hooks there."""

from collections.abc import Callable, Sequence
from typing import Any

from ...recording.recorder import Recorder
from ...taps.resting import Put, RestingHooks
from .hooks import Hook, OpeningHook
from .sites import ModuleSites


def watch_entrances(
    recorder: Recorder,
    places: ModuleSites,
    opening: OpeningHook,
    batches: Callable[..., None] | None,
    *,
    may_rest: bool,
) -> RestingHooks:
    """The hooks before the modules whose calls are forwards of the model; they rest while steps are idle for long.

    Args:
        opening: Comes first.
        batches: Sees what the model is called with; None for nobody.
        may_rest: False where hooks of ours on the same modules stay on, which these must come before.
    """
    entrances, due = [*places.entrances()], recorder.due
    hooks: list[tuple[Hook, bool]] = [(opening, False)]
    if batches is not None:
        hooks.append((Hook(batches), True))
    resting = RestingHooks(
        [_put(entrance, hook, has_keywords) for entrance in entrances for hook, has_keywords in hooks],
        is_needed=lambda: not due.is_idle_for_long,
        rests=lambda: due.is_idle_for_long,
        may_rest=lambda: may_rest and not places.is_compiled and _are_ours_alone(entrances),
    )
    due.tell(resting.follow, of=frozenset())
    return resting


def _put(entrance: Any, hook: Hook, has_keywords: bool) -> Put:
    return lambda is_again: entrance.register_forward_pre_hook(hook, with_kwargs=has_keywords, prepend=is_again)


def _are_ours_alone(modules: Sequence[Any]) -> bool:
    """Whether nobody else has hooks before these modules."""
    return all(isinstance(hook, Hook) for module in modules for hook in module._forward_pre_hooks.values())
