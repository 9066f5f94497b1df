"""Notes every collective of torch.distributed in a ring, so that a process that hangs can say what it waits for."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import torch
import torch.distributed as distributed

from ...guard import Guard
from ...process_ranks import group_name
from ...recording.collective_ring import CollectiveRing, Slot

#: How the paths of torch's files begin.
TORCH_FILES: Final = f"{Path(torch.__file__).parent}{os.sep}"
#: The newest collectives of this process.
RING: Final = CollectiveRing((TORCH_FILES,))
#: Arguments that all ranks must agree on.
_AGREED: Final = frozenset({"op", "src", "dst", "group_src", "group_dst"})
_TRANSFERS: Final = frozenset({"send", "isend", "recv", "irecv"})
_MOST_SHAPES: Final = 8

_group_names: dict[str, str] = {}


def _give_up(_: BaseException) -> None:
    """Forget that collectives are noted; the guard has said why."""


_ring_guard = Guard(_give_up, lambda: "the ring of collectives failed: hangs of this process are not explained")


class NotedCall:
    """The slots of one call in the ring; none where the ring fails."""

    __slots__ = ("slots",)

    def __init__(self, operation: str, bound: Mapping[str, object], names: tuple[str, ...]) -> None:
        self.slots: Sequence[Slot] = _note(operation, bound, names) if RING.is_on else ()

    def waits(self) -> None:
        """Note that a thread waits for the call."""
        _tell(RING.wait, self.slots)

    def ends(self, state: str) -> None:
        """Note what became of the call."""
        _tell(RING.end, self.slots, state)


def _tell(what: Callable[..., None], slots: Sequence[Slot], *state: str) -> None:
    try:
        for slot in slots:
            what(slot, *state)
    except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
        _ring_guard.failed(error)


def _note(operation: str, bound: Mapping[str, object], names: tuple[str, ...]) -> Sequence[Slot]:
    if _ring_guard.is_off:
        return ()
    try:
        if operation == "batch_isend_irecv":
            return _note_batch(bound)
        group = _group_of(bound.get("group"))
        first = bound.get(names[0]) if names else None
        if isinstance(first, torch.Tensor) and operation not in _TRANSFERS:  # nearly always
            detail = [item for item in bound.items() if item[0] in _AGREED and item[1] is not None]
            return (RING.begin(operation, group, (first.shape,), first.dtype, detail),)
        tensors = [*tensors_of(bound, names)]
        if operation in _TRANSFERS:
            peer = next((bound[name] for name in ("dst", "src") if bound.get(name) is not None), None)
            return (_note_transfer(operation, group, peer, tensors),)
        detail = [item for item in bound.items() if item[0] in _AGREED and item[1] is not None]
        sizes = [x.shape for x in tensors[:_MOST_SHAPES]]
        return (RING.begin(operation, group, sizes, tensors[0].dtype if tensors else None, detail),)
    except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
        _ring_guard.failed(error)
        return ()


def _note_batch(bound: Mapping[str, object]) -> Sequence[Slot]:
    """Note the transfers of a batch, which `_by_direction` has sorted."""
    group = _group_of(bound.get("group"))
    return [
        _note_transfer(operation, group, peer, [tensor])
        for operation, tensor, peer in zip(
            *(bound.get(name, ()) for name in ("operations", "tensors", "peers")), strict=False
        )
    ]


def _note_transfer(operation: str, group: str, peer: object, tensors: Sequence[torch.Tensor]) -> Slot:
    """Note a send or receive: calls between two ranks have numbers of their own."""
    here = distributed.get_rank()
    pair = (here, peer) if "send" in operation else (peer, here)
    name = f"{group}:{'any' if peer is None else pair[0]}->{pair[1]}"
    if peer is not None and not RING.knows(name):
        RING.learn_group(name, tuple(int(str(rank)) for rank in pair))
    return RING.begin(operation, name, [x.shape for x in tensors], tensors[0].dtype if tensors else None)


def _group_of(group: object) -> str:
    """Return the name of the group, and tell the ring its ranks once."""
    if group is None:
        if not RING.knows("world"):
            RING.learn_group("world", tuple(range(distributed.get_world_size())))
        return "world"
    key = str(getattr(group, "group_name", ""))
    known = _group_names.get(key)
    if known is None:
        known = group_name(distributed, group)
        if known != "world":
            known = f"{known}#{key}"  # several groups may have the same description, or the same ranks
        _group_names[key] = known
        RING.learn_group(known, tuple(int(rank) for rank in distributed.get_process_group_ranks(group)))
    return known


def tensors_of(bound: Mapping[str, object], names: tuple[str, ...]) -> Iterator[torch.Tensor]:
    """Yield the tensors among the arguments of these names."""
    for name in names:
        value = bound.get(name)
        yield from (x for x in (value if isinstance(value, list | tuple) else (value,)) if isinstance(x, torch.Tensor))
