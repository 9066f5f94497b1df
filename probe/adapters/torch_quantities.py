"""Quantities inside torch's forwards: hooks of the user's and of routers, and attention by its own functions.

`scaled_dot_product_attention` and `softmax` of `torch.nn.functional` are replaced while anybody listens, and step aside
while torch compiles. Names that a script imported before are not replaced; torch's own modules look them up.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

import torch
from torch.nn import functional

from ..quantities.calls import AttentionCalls
from ..quantities.hooks import QuantityHooks
from ..quantities.unit_hooks import watch_units
from ..recorder import Recorder
from .tensors import Tensor
from .torch_hooks import Hook
from .torch_memory import ACCESS, array_of, is_remote
from .torch_operators import TorchOperators

_listeners: list[AttentionCalls] = []
_originals: list[tuple[str, Any, Any]] = []

_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


def watch_quantities(
    recorder: Recorder,
    counts: Callable[[], bool],
    modules: Mapping[str, Any],
    sites: Sequence[str],
    hooked: Callable[[Any], Any],
) -> Iterator[Any]:
    """The handles of all that is put on.

    Args:
        modules: By site, all of them; `sites`: those that the configuration picks.
        hooked: Where the hooks of a module go.
    """

    if recorder.config.schedule("operator").is_ever_due:
        yield TorchOperators(recorder, modules, counts, hooked)

    def register(module: Any, hook: Callable[[Any, Any, Any], None]) -> Any:
        return hooked(module).register_forward_hook(Hook(hook))

    yield from QuantityHooks(recorder, ACCESS, counts, register).attach(modules)
    picked = {site: modules[site] for site in sites}
    yield from watch_units(recorder, ACCESS, counts, picked, register)
    if recorder.config.schedule("attention").is_ever_due:
        calls = AttentionCalls(recorder, counts, _take)
        attending = calls.attending(picked)
        for site in attending:
            module = hooked(modules[site])
            yield module.register_forward_pre_hook(Hook(recorder.timed(calls.entering(site, modules[site]))))
            yield module.register_forward_hook(Hook(calls.leaving(site)), always_call=True)
        if attending:
            yield _Listening(calls)


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
    if isinstance(query, torch.Tensor) and isinstance(key, torch.Tensor) and not is_remote(query):
        last_seen = 0 if given.get("is_causal") else None
        for calls in tuple(_listeners):
            calls.attention(query, key, given.get("attn_mask"), scale=given.get("scale"), last_seen=last_seen)


def _tell_softmax(*arguments: Any, **options: Any) -> None:
    given = {**dict(zip(("input", "dim"), arguments, strict=False)), **options}
    scores = given.get("input")
    if isinstance(scores, torch.Tensor) and not is_remote(scores) and given.get("dim") in (-1, scores.dim() - 1):
        for calls in tuple(_listeners):
            calls.softmax(scores)


def _take(tensor: Tensor, index: tuple[Any, ...]) -> Any:
    picked = tensor.detach()[tuple(one if isinstance(one, int) else torch.from_numpy(one) for one in index)]
    return array_of(picked.float() if picked.dtype in (torch.bfloat16, torch.float16) else picked)
