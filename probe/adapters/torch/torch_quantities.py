"""Reads attention, routers and the user's quantities inside a torch model."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from ...guard import Guard
from ...hooks.attention_hooks import AttentionCalls
from ...hooks.idle_hooks import Put, RestingHooks
from ...hooks.quantity_hooks import QuantityHooks
from ...hooks.unit_hooks import unit_hooks
from ...quantities.attention_statistics import MOST_HEADS, MOST_QUERIES, spread, within
from ...recording.recorder import Recorder
from ...tensor_access import ForwardHook, HookHandle
from ...warning_places import skipped_by_warnings
from .torch_hook_tables import hidden_in
from .torch_hooks import Hook
from .torch_operators import Hooked, TorchOperators
from .torch_tensors import ACCESS, array_of, is_remote, may_travel


class TorchAttention:
    """Reads attention on a device; all tensors of a call lie on the same one."""

    def is_on_device(self, tensor: torch.Tensor) -> bool:
        """Return whether the tensor lies on a device, whole."""
        return may_travel(tensor)

    def attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        mask: torch.Tensor | None,
        *,
        scale: float | None,
        last_seen: int | None,
        turn: int,
    ) -> torch.Tensor:
        """Return `(5,)` float64 on the device, the numbers of `ATTENTION`; arguments as `logits_of` takes them."""
        return _of_parts(query, key, mask, scale, last_seen, turn)

    def softmax(self, scores: torch.Tensor, *, scale: float, last_seen: int | None, turn: int) -> torch.Tensor:
        """Return `(5,)`, the same numbers of existing logits; arguments as `sample_of` takes them."""
        rows = spread(scores.shape[-2], MOST_QUERIES)
        logits = _queries(_heads(scores.detach(), tuple(scores.shape[:-2]), turn), rows) * scale
        return _statistics(_hidden(logits, rows, last_seen))


def _of_parts(
    query: torch.Tensor,
    key: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float | None,
    last_seen: int | None,
    turn: int,
) -> torch.Tensor:
    lead, rows = tuple(query.shape[:-2]), spread(query.shape[-2], MOST_QUERIES)
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    q = _queries(_heads(query.detach(), lead, turn), rows)
    logits = (q @ _heads(key.detach(), lead, turn).transpose(-1, -2).to(torch.float64)) * factor
    if mask is not None:
        logits = _masked(logits, mask.detach(), lead, turn, rows)
    return _statistics(_hidden(logits, rows, last_seen))


def _heads(tensor: torch.Tensor, lead: tuple[int, ...], turn: int) -> torch.Tensor:
    """Return `(heads, ., .)`: the sampled heads of one sample; `lead` are the axes that the tensor broadcasts to."""
    if not lead:
        return tensor.reshape(1, *tensor.shape[-2:])
    samples = math.prod(lead[:-1])
    sample = np.unravel_index(turn % max(samples, 1), lead[:-1]) if len(lead) > 1 else ()
    heads = spread(lead[-1], MOST_HEADS)
    have = tuple(tensor.shape[:-2])
    if not have:
        return tensor.expand(len(heads), *tensor.shape[-2:])
    own = within(have[:-1], lead[:-1], tuple(int(i) for i in sample))
    return tensor[own].index_select(0, _index(tuple((heads * have[-1] // lead[-1]).tolist()), tensor.device))


def _queries(tensor: torch.Tensor, rows: NDArray[np.int64]) -> torch.Tensor:
    return tensor.index_select(1, _index(tuple(rows.tolist()), tensor.device)).to(torch.float64)


def _masked(
    logits: torch.Tensor, mask: torch.Tensor, lead: tuple[int, ...], turn: int, rows: NDArray[np.int64]
) -> torch.Tensor:
    part = mask.reshape(1, -1) if mask.dim() == 1 else mask
    part = _heads(part, lead, turn)
    if part.shape[-2] > 1:
        part = part.index_select(1, _index(tuple(rows.tolist()), part.device))
    return torch.where(part, logits, -torch.inf) if part.dtype is torch.bool else logits + part.to(torch.float64)


def _hidden(logits: torch.Tensor, rows: NDArray[np.int64], last_seen: int | None) -> torch.Tensor:
    if last_seen is None:
        return logits
    keys = torch.arange(logits.shape[-1], device=logits.device)
    is_later = keys > _index(tuple((rows + last_seen).tolist()), logits.device)[:, None]
    return torch.where(is_later, -torch.inf, logits)


def _statistics(scores: torch.Tensor) -> torch.Tensor:
    """Return the same numbers as `attention_statistics`, on the device."""
    seen = (scores != -torch.inf).sum(-1)
    largest = scores.amax(-1) if scores.shape[-1] else torch.full_like(scores.sum(-1), -torch.inf)
    looks = seen > 0
    deviations = scores - torch.where(looks, largest, 0.0)[..., None]
    weights = deviations.exp()
    total = weights.sum(-1)
    entropies = total.log() - torch.where(weights > 0.0, weights * deviations, 0.0).sum(-1) / total
    entropies = torch.where(largest.isnan(), torch.nan, entropies)
    chooses = seen > 1
    of_heads = torch.where(looks, entropies, 0.0).sum(-1) / looks.sum(-1)
    numbers = torch.stack(
        [
            torch.where(looks, entropies, 0.0).sum() / looks.sum(),
            torch.where(looks.any(-1), of_heads, torch.inf).amin(),
            torch.where(chooses, entropies / seen.to(torch.float64).log(), 0.0).sum() / chooses.sum(),
            torch.where(looks, largest, -torch.inf).amax(),
        ]
    )
    return torch.cat([torch.where(looks.any(), numbers, torch.nan), looks.sum().to(torch.float64)[None]])


@lru_cache(maxsize=256)
def _index(indices: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Return the indices as a tensor on the device, sent from pinned memory so that the host does not wait."""
    on_host = torch.tensor(indices, dtype=torch.int64, device="cpu")
    return on_host if device.type == "cpu" else on_host.pin_memory().to(device, non_blocking=True)


_ATTENTION, _UNITS = frozenset({"attention"}), frozenset({"activation/units"})
_listeners: list["_AttentionListener"] = []
_originals: list[tuple[str, object, object]] = []

_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


def watch_quantities(
    recorder: Recorder,
    counts: Callable[[], bool],
    modules: Mapping[str, torch.nn.Module],
    sites: Sequence[str],
    hooked: Hooked,
    may_rest: Callable[[str], bool],
) -> Iterator[HookHandle]:
    """Attach the hooks of all quantities and yield their handles.

    Args:
        modules: By site, all of them; `sites`: those that the configuration picks.
        hooked: Where the hooks of a module go.
        may_rest: Of a site, whether hooks may come off while nothing of theirs is due.
    """

    if recorder.config.schedule("operator").is_ever_due:
        yield TorchOperators(recorder, modules, counts, hooked)

    def register(module: torch.nn.Module, hook: ForwardHook) -> HookHandle:
        handle: HookHandle = hidden_in(hooked(module)).register_forward_hook(Hook(hook, recorder.guard))
        return handle

    yield from QuantityHooks(recorder, ACCESS, counts, register).attach(modules)
    picked = {site: modules[site] for site in sites}
    yield _resting(recorder, _UNITS, may_rest, _units(recorder, counts, picked, hooked))
    if recorder.config.schedule("attention").is_ever_due:
        calls = AttentionCalls(recorder, counts, _take, TorchAttention())
        free = (lambda _: False) if calls.is_named else may_rest
        yield _resting(recorder, _ATTENTION, free, _attention(recorder, calls, picked, hooked))


def _resting(
    recorder: Recorder, names: frozenset[str], may_rest: Callable[[str], bool], puts: Mapping[str, Sequence[Put]]
) -> RestingHooks:
    """Return these hooks as ones that are attached only around steps at which their collectors are due."""
    resting = RestingHooks(
        [put for several in puts.values() for put in several],
        is_needed=lambda: any(name in recorder.current.due for name in names),
        rests=lambda: recorder.due.rests(names),
        may_rest=lambda: all(may_rest(site) for site in puts),
    )
    recorder.due.subscribe(resting.follow, of=names)
    return resting


def _units(
    recorder: Recorder, counts: Callable[[], bool], modules: Mapping[str, torch.nn.Module], hooked: Hooked
) -> dict[str, list[Put]]:
    def put(module: torch.nn.Module, work: ForwardHook) -> Put:
        hook = Hook(work, recorder.guard)
        return lambda is_again: hidden_in(hooked(module)).register_forward_hook(hook, prepend=is_again)

    return {site: [put(modules[site], work)] for site, work in unit_hooks(recorder, ACCESS, counts, modules)}


def _attention(
    recorder: Recorder, calls: AttentionCalls, modules: Mapping[str, torch.nn.Module], hooked: Hooked
) -> dict[str, list[Put]]:
    def puts(site: str) -> list[Put]:
        module, guard = hooked(modules[site]), recorder.guard
        enter, leave = Hook(calls.entering(site, modules[site]), guard), Hook(calls.leaving(site), guard)
        return [
            lambda is_again: hidden_in(module).register_forward_pre_hook(enter, prepend=is_again),
            lambda is_again: module.register_forward_hook(leave, always_call=True, prepend=is_again),
        ]

    attending = calls.attending(modules)
    found = {site: puts(site) for site in attending}
    if attending:  # torch's functions are patched last, together with the hooks of the first module
        found[attending[0]].insert(0, lambda _: _AttentionListener(calls, recorder.guard))
    return found


class _AttentionListener:
    """Reports attention to the calls by patching two functions of torch."""

    def __init__(self, calls: AttentionCalls, guard: Guard) -> None:
        self.guard, self.attention, self.softmax = guard, calls.attention, calls.softmax
        _listeners.append(self)
        if len(_listeners) == 1:
            _replace("scaled_dot_product_attention", _report_attention)
            _replace("softmax", _report_softmax)

    def remove(self) -> None:
        """Stop listening; after the last listener, restore the functions that nobody else has replaced."""
        if self in _listeners:
            _listeners.remove(self)
        while not _listeners and _originals:
            name, original, replacement = _originals.pop()
            if getattr(functional, name) is replacement:
                setattr(functional, name, original)


def _replace(name: str, report: Callable[..., None]) -> None:
    original, is_compiling = getattr(functional, name), torch.compiler.is_compiling

    @wraps(original)
    @skipped_by_warnings
    def call(*arguments: object, **options: object) -> object:
        if not is_compiling():
            try:
                report(*arguments, **options)
            except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
                for listener in tuple(_listeners):
                    listener.guard.failed(error)
        return original(*arguments, **options)

    _originals.append((name, original, call))
    setattr(functional, name, call)


def _report_attention(*arguments: Any, **options: Any) -> None:
    bound = {**dict(zip(_ARGUMENTS, arguments, strict=False)), **options}
    query, key = bound.get("query"), bound.get("key")
    if isinstance(query, torch.Tensor) and isinstance(key, torch.Tensor) and _is_readable(query):
        last_seen = 0 if bound.get("is_causal") else None
        for listener in _awake():
            listener.attention(query, key, bound.get("attn_mask"), scale=bound.get("scale"), last_seen=last_seen)


def _report_softmax(*arguments: Any, **options: Any) -> None:
    bound = {**dict(zip(("input", "dim"), arguments, strict=False)), **options}
    scores = bound.get("input")
    if isinstance(scores, torch.Tensor) and _is_readable(scores) and bound.get("dim") in (-1, scores.dim() - 1):
        for listener in _awake():
            listener.softmax(scores)


def _awake() -> list[_AttentionListener]:
    return [listener for listener in _listeners if not listener.guard.is_off]


def _is_readable(tensor: torch.Tensor) -> bool:
    """Return whether the tensor lies on the host, or on a device that can be asked for it now."""
    return not is_remote(tensor) or may_travel(tensor)


def _take(tensor: torch.Tensor, index: tuple[Any, ...]) -> NDArray[Any]:
    picked = tensor.detach()[
        tuple(axis_index if isinstance(axis_index, int) else torch.from_numpy(axis_index) for axis_index in index)
    ]
    return array_of(picked.float() if picked.dtype in (torch.bfloat16, torch.float16) else picked)
