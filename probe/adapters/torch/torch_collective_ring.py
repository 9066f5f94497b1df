"""Notes every collective of torch.distributed in a ring, so that a process that hangs can say what it waits for."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import torch
import torch.distributed as distributed

from ....storage.transfers import TRANSFERS, Transfer, is_send
from ...guard import Guard
from ...process_ranks import group_name
from ...recording.collective_ring import CollectiveRing, Slot

#: How the paths of torch's files begin.
TORCH_FILES: Final = f"{Path(torch.__file__).parent}{os.sep}"
#: The newest collectives of this process.
RING: Final = CollectiveRing((TORCH_FILES,))
#: Arguments that all ranks must agree on.
_AGREED: Final = frozenset({"op", "src", "dst", "group_src", "group_dst"})
_MOST_SHAPES: Final = 8
#: Backends that match sends and receives by their order alone.
_WITHOUT_TAGS: Final = frozenset({"nccl", "hccl", "xccl"})

#: Arguments that tell both ends of a send or receive, and names of these that are kept.
_ENDS: Final = ("dst", "src", "group_dst", "group_src", "tag")
_MOST_NAMES: Final = 4096

_group_names: dict[str, str] = {}
_transfer_names: dict[tuple[object, ...], str] = {}


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
        group = _group_of(bound.get("group"))
        first = bound.get(names[0]) if names else None
        if isinstance(first, torch.Tensor) and operation not in TRANSFERS:  # nearly always
            detail = [item for item in bound.items() if item[0] in _AGREED and item[1] is not None]
            return (RING.begin(operation, group, (first.shape,), first.dtype, detail),)
        tensors = [*tensors_of(bound, names)]
        if operation in TRANSFERS:
            sizes = [x.shape for x in tensors]
            return (RING.begin(operation, _ends_of(operation, group, bound), sizes, tensors[0].dtype),)
        detail = [item for item in bound.items() if item[0] in _AGREED and item[1] is not None]
        sizes = [x.shape for x in tensors[:_MOST_SHAPES]]
        return (RING.begin(operation, group, sizes, tensors[0].dtype if tensors else None, detail),)
    except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
        _ring_guard.failed(error)
        return ()


def _ends_of(operation: str, group: str, bound: Mapping[str, object]) -> str:
    """Return the name under which both ends of a send or receive number their calls."""
    key = (operation, group, *map(bound.get, _ENDS))
    name = _transfer_names.get(key)
    if name is None:
        if len(_transfer_names) >= _MOST_NAMES:
            _transfer_names.clear()
        name = _transfer_names[key] = _new_name(operation, group, bound)
    return name


def _new_name(operation: str, group: str, bound: Mapping[str, object]) -> str:
    here, peer = distributed.get_rank(), peer_of(bound)
    tag = bound.get("tag", 0)
    tag = tag if isinstance(tag, int) and _matches_tags(bound.get("group")) else 0
    there = -1 if peer is None else peer
    source, target = (here, there) if is_send(operation) else (there, here)
    return Transfer(group, source, target, tag).name


def _matches_tags(group: object) -> bool:
    return str(distributed.get_backend(group)) not in _WITHOUT_TAGS


def peer_of(bound: Mapping[str, object]) -> int | None:
    """Return the other end of a send or receive, a rank of the world; None where it is whoever sends."""
    for name in ("dst", "src"):
        if (peer := bound.get(name)) is not None:
            return int(str(peer))
        if (peer := bound.get(f"group_{name}")) is not None:
            return int(distributed.get_global_rank(bound.get("group") or distributed.group.WORLD, int(str(peer))))
    return None


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
