"""Quantities inside the engine's forwards: hooks of the user's and of routers, and attention by its primitives."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ....framework.primitive import PRIMITIVES
from ...recording.recorder import Recorder
from ...taps.calls import AttentionCalls
from ...taps.quantity_hooks import QuantityHooks
from ...taps.unit_hooks import unit_hooks
from .operators import EngineOperators
from .view import ACCESS

_listeners: list[AttentionCalls] = []
_originals: list[tuple[str, Any, Any]] = []


def watch_quantities(
    recorder: Recorder, counts: Callable[[], bool], cells: Mapping[str, Any], sites: Sequence[str]
) -> Iterator[Any]:
    """The handles of all that is put on.

    Args:
        cells: By site, all of them; `sites`: those that the configuration picks.
    """

    if recorder.config.schedule("operator").is_ever_due:
        yield EngineOperators(recorder, cells, counts)  # first, so that it is first to put back what it has replaced

    def register(cell: Any, hook: Callable[[Any, Any, Any], None]) -> Any:
        return cell.register_forward_hook(hook)

    yield from QuantityHooks(recorder, ACCESS, counts, register).attach(cells)
    picked = {site: cells[site] for site in sites}
    for site, hook in unit_hooks(recorder, ACCESS, counts, picked):
        yield register(cells[site], hook)
    if recorder.config.schedule("attention").is_ever_due:
        calls = AttentionCalls(recorder, counts, lambda array, index: array[index])
        attending = calls.attending(picked)
        for site in attending:
            yield cells[site].register_forward_pre_hook(recorder.timed(calls.entering(site, cells[site])))
            yield cells[site].register_forward_hook(calls.leaving(site))
        if attending:
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
