"""Quantities inside torch's forwards: hooks of the user's and of routers, and attention by its own functions.

`scaled_dot_product_attention` and `softmax` of `torch.nn.functional` are replaced while anybody listens, and step aside
while torch compiles. Names that a script imported before are not replaced; torch's own modules look them up.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

import torch
from torch.nn import functional

from ...access.tensors import Tensor
from ...recording.recorder import Recorder
from ...taps.calls import AttentionCalls
from ...taps.quantity_hooks import QuantityHooks
from ...taps.resting import Put, RestingHooks
from ...taps.unit_hooks import unit_hooks
from .attention import Away
from .hooks import Hook
from .memory import ACCESS, array_of
from .operators import TorchOperators
from .parts import is_remote, may_travel

_ATTENTION, _UNITS = frozenset({"attention"}), frozenset({"activation/units"})
_listeners: list[AttentionCalls] = []
_originals: list[tuple[str, Any, Any]] = []

_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


def watch_quantities(
    recorder: Recorder,
    counts: Callable[[], bool],
    modules: Mapping[str, Any],
    sites: Sequence[str],
    hooked: Callable[[Any], Any],
    may_rest: Callable[[str], bool],
) -> Iterator[Any]:
    """The handles of all that is put on.

    Args:
        modules: By site, all of them; `sites`: those that the configuration picks.
        hooked: Where the hooks of a module go.
        may_rest: Of a site, whether hooks may come off while nothing of theirs is due.
    """

    if recorder.config.schedule("operator").is_ever_due:
        yield TorchOperators(recorder, modules, counts, hooked)

    def register(module: Any, hook: Callable[[Any, Any, Any], None]) -> Any:
        return hooked(module).register_forward_hook(Hook(hook))

    yield from QuantityHooks(recorder, ACCESS, counts, register).attach(modules)
    picked = {site: modules[site] for site in sites}
    yield _resting(recorder, _UNITS, may_rest, _units(recorder, counts, picked, hooked))
    if recorder.config.schedule("attention").is_ever_due:
        calls = AttentionCalls(recorder, counts, _take, Away())
        free = (lambda _: False) if calls.is_named else may_rest
        yield _resting(recorder, _ATTENTION, free, _attention(recorder, calls, picked, hooked))


def _resting(
    recorder: Recorder, names: frozenset[str], may_rest: Callable[[str], bool], puts: Mapping[str, Sequence[Put]]
) -> RestingHooks:
    """These hooks by their sites, which are there only around the steps at which the collectors are due."""
    resting = RestingHooks(
        [put for several in puts.values() for put in several],
        is_needed=lambda: any(name in recorder.current.due for name in names),
        rests=lambda: recorder.due.rests(names),
        may_rest=lambda: all(may_rest(site) for site in puts),
    )
    recorder.due.tell(resting.follow, of=names)
    return resting


def _units(
    recorder: Recorder, counts: Callable[[], bool], modules: Mapping[str, Any], hooked: Callable[[Any], Any]
) -> dict[str, list[Put]]:
    def put(module: Any, work: Callable[[Any, Any, Any], None]) -> Put:
        hook = Hook(work)
        return lambda is_again: hooked(module).register_forward_hook(hook, prepend=is_again)

    return {site: [put(modules[site], work)] for site, work in unit_hooks(recorder, ACCESS, counts, modules)}


def _attention(
    recorder: Recorder, calls: AttentionCalls, modules: Mapping[str, Any], hooked: Callable[[Any], Any]
) -> dict[str, list[Put]]:
    def puts(site: str) -> list[Put]:
        module = hooked(modules[site])
        enter, leave = Hook(recorder.timed(calls.entering(site, modules[site]))), Hook(calls.leaving(site))
        return [
            lambda is_again: module.register_forward_pre_hook(enter, prepend=is_again),
            lambda is_again: module.register_forward_hook(leave, always_call=True, prepend=is_again),
        ]

    attending = calls.attending(modules)
    found = {site: puts(site) for site in attending}
    if attending:  # the functions themselves are replaced last, when the first module is hooked
        found[attending[0]].insert(0, lambda _: _Listening(calls))
    return found


class _Listening:
    """While it is there, the calls hear of attention."""

    def __init__(self, calls: AttentionCalls) -> None:
        self._calls = calls
        _listeners.append(calls)
        if len(_listeners) == 1:
            _replace("scaled_dot_product_attention", _tell_attention)
            _replace("softmax", _tell_softmax)

    def remove(self) -> None:
        """Nothing; after the last one torch is as it was, unless others have replaced the same functions meanwhile."""
        if self._calls in _listeners:
            _listeners.remove(self._calls)
        while not _listeners and _originals:
            name, original, ours = _originals.pop()
            if getattr(functional, name) is ours:
                setattr(functional, name, original)


def _replace(name: str, tell: Callable[..., None]) -> None:
    original, is_compiling = getattr(functional, name), torch.compiler.is_compiling

    @wraps(original)
    def call(*arguments: Any, **options: Any) -> Any:
        if not is_compiling():
            tell(*arguments, **options)
        return original(*arguments, **options)

    _originals.append((name, original, call))
    setattr(functional, name, call)


def _tell_attention(*arguments: Any, **options: Any) -> None:
    given = {**dict(zip(_ARGUMENTS, arguments, strict=False)), **options}
    query, key = given.get("query"), given.get("key")
    if isinstance(query, torch.Tensor) and isinstance(key, torch.Tensor) and _is_readable(query):
        last_seen = 0 if given.get("is_causal") else None
        for calls in tuple(_listeners):
            calls.attention(query, key, given.get("attn_mask"), scale=given.get("scale"), last_seen=last_seen)


def _tell_softmax(*arguments: Any, **options: Any) -> None:
    given = {**dict(zip(("input", "dim"), arguments, strict=False)), **options}
    scores = given.get("input")
    if isinstance(scores, torch.Tensor) and _is_readable(scores) and given.get("dim") in (-1, scores.dim() - 1):
        for calls in tuple(_listeners):
            calls.softmax(scores)


def _is_readable(tensor: Tensor) -> bool:
    """Whether it lies on the host, or may be asked for where it lies."""
    return not is_remote(tensor) or may_travel(tensor)


def _take(tensor: Tensor, index: tuple[Any, ...]) -> Any:
    picked = tensor.detach()[tuple(one if isinstance(one, int) else torch.from_numpy(one) for one in index)]
    return array_of(picked.float() if picked.dtype in (torch.bfloat16, torch.float16) else picked)
