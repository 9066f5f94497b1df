"""Counts the batches that data loaders give and the forward passes of DistributedDataParallel, by step."""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.dataloader import _BaseDataLoaderIter

from ...guard import Guard
from ...recording.step_passes import StepPasses
from .torch_collective_ring import RING, TORCH_FILES
from .torch_patches import PatchedFunctions

__all__ = ["PASSES", "CountedPasses"]

#: The passes of this process, by the steps that the ring of collectives knows.
PASSES: Final = StepPasses(lambda: RING.step(), (TORCH_FILES,))


def _give_up(_: BaseException) -> None:
    """Forget that passes are counted; the guard has said why."""


_guard = Guard(_give_up, lambda: "counting batches failed: a step that a rank leaves out is not told")


def _note(kind: str) -> None:
    if RING.is_on and not _guard.is_off:
        try:
            PASSES.note(kind)
        except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
            _guard.failed(error)


def _counted_batch(original: Callable[..., Any]) -> Callable[..., Any]:
    def take(self: Any) -> Any:
        batch = original(self)
        _note("batch")
        return batch

    return take


def _counted_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    def forward(self: Any, *inputs: Any, **options: Any) -> Any:
        if not torch.compiler.is_compiling() and self.training and torch.is_grad_enabled():
            _note("forward")
        return original(self, *inputs, **options)

    return forward


def _patch() -> None:
    _patches.put(_BaseDataLoaderIter, "__next__", _counted_batch)
    _patches.put(DistributedDataParallel, "forward", _counted_forward)


_patches: PatchedFunctions[object] = PatchedFunctions(_patch)


class CountedPasses:
    """Counts from `attach` to `remove`."""

    def attach(self) -> None:
        """Count from now on."""
        _patches.add(self)

    def remove(self) -> None:
        """Count no more; after the last one, restore torch's functions."""
        _patches.remove(self)
