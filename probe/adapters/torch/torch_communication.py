"""What PyTorch's own Flight Recorder holds: also the collectives that DDP and FSDP call where no wrapper sees them."""

import json
from collections.abc import Mapping
from typing import Any, Final

import torch
import torch.distributed as distributed

from ....storage.flight_recorder_dump import recorded_calls
from ....storage.last_words import CollectiveCall, PassUse
from ...recording.collective_ring import CollectiveRing
from .torch_collective_ring import RING
from .torch_step_passes import PASSES

__all__ = ["TorchCommunication"]

#: Names of the function, newest first; what it returns is JSON, without stacks and cheap to make.
_DUMPS: Final = ("_dump_fr_trace_json", "_dump_nccl_trace_json")
#: Entries that are kept of a dump.
_MOST: Final = 64


class TorchCommunication:
    """The communication of this process through torch.distributed."""

    @property
    def ring(self) -> CollectiveRing:
        """The newest collectives, as the wrappers saw them."""
        return RING

    @property
    def rank(self) -> int:
        """Which one this process is."""
        return int(distributed.get_rank()) if distributed.is_initialized() else 0

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return int(distributed.get_world_size()) if distributed.is_initialized() else 1

    def passes(self) -> tuple[PassUse, ...]:
        """Return which lines take batches or run forward passes, and which steps took more than usual."""
        return PASSES.uses()

    def native_calls(self) -> tuple[CollectiveCall, ...]:
        """Return the newest entries of the Flight Recorder; nothing of a PyTorch that has none."""
        native: Any = getattr(torch._C, "_distributed_c10d", None)  # Any: compiled, untyped
        dump = next((getattr(native, name) for name in _DUMPS if hasattr(native, name)), None)
        if dump is None:
            return ()
        text = dump()
        found: Mapping[str, Any] = json.loads(text)
        calls, groups = recorded_calls(found)
        for name, ranks in groups.items():
            if not RING.knows(name):
                RING.learn_group(name, ranks)
        return tuple(calls[-_MOST:])
