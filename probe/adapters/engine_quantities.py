"""Quantities inside the engine's forwards: hooks of the user's and of routers, and attention by its primitives."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ...framework.primitive import PRIMITIVES
from ..quantities.calls import AttentionCalls
from ..quantities.hooks import QuantityHooks
from ..recorder import Recorder
from .engine_view import ACCESS

_listeners: list[AttentionCalls] = []
_originals: list[tuple[str, Any, Any]] = []


def watch_quantities(
    recorder: Recorder, counts: Callable[[], bool], cells: Mapping[str, Any], sites: Iterable[str]
) -> Iterator[Any]:
    """The handles of all that is put on.

    Args:
        cells: By site, all of them; `sites`: those that the configuration picks.
    """
    hooks = QuantityHooks(recorder, ACCESS, counts, lambda cell, hook: cell.register_forward_hook(hook))
    yield from hooks.attach(cells)
    if recorder.config.schedule("attention").is_ever_due:
        calls = AttentionCalls(recorder, counts, lambda array, index: array[index])
        for site in sites:
            yield cells[site].register_forward_pre_hook(recorder.timed(calls.entering(site, cells[site])))
            yield cells[site].register_forward_hook(calls.leaving(site))
        yield _Listening(calls)


class _Listening:
    """While it is there, the calls hear of attention; a table of primitives tells what the engine evaluates."""

    def __init__(self, calls: AttentionCalls) -> None:
        self._calls = calls
        _listeners.append(calls)
        if len(_listeners) == 1:
            _replace("attention", _tell_attention)
            _replace("softmax", _tell_softmax)

    def remove(self) -> None:
        """Nothing; after the last one the table is as it was, unless others have changed it meanwhile."""
        if self._calls in _listeners:
            _listeners.remove(self._calls)
        while not _listeners and _originals:
            name, original, ours = _originals.pop()
            if PRIMITIVES[name].evaluate is ours:
                PRIMITIVES[name].evaluate = original


def _replace(name: str, tell: Callable[..., None]) -> None:
    original = PRIMITIVES[name].evaluate

    def evaluate(*inputs: Any, **attributes: Any) -> Any:
        if _listeners:
            tell(*inputs, **attributes)
        return original(*inputs, **attributes)

    _originals.append((name, original, evaluate))
    PRIMITIVES[name].evaluate = evaluate


def _tell_attention(query: Any, key: Any, _value: Any, *mask: Any, causal: bool, scale: float) -> None:
    last_seen = key.shape[-2] - query.shape[-2] if causal else None
    for calls in tuple(_listeners):
        calls.attention(query, key, mask[0] if mask else None, scale=scale, last_seen=last_seen)


def _tell_softmax(scores: Any, *, scale: float, causal: bool) -> None:
    if isinstance(scores, np.ndarray) and scores.ndim > 2:
        last_seen = scores.shape[-1] - scores.shape[-2] if causal else None
        for calls in tuple(_listeners):
            calls.softmax(scores, scale=scale, last_seen=last_seen)
