"""Activation checkpointing: which of the two forwards of a checkpointed function counts.

Without reentry (`use_reentrant=False`) the first one counts: its tensors are those that the gradients flow through, and
what is computed again in the backward pass only fills in saved values. With reentry the first one runs without
gradients, and the second one, inside the backward pass, counts.
"""

import sys
from types import CodeType, FrameType

import torch
from torch.utils import checkpoint

#: Of the backward pass that this thread runs inside of; -1 outside of any.
current_graph_task_id = torch._C._current_graph_task_id
_reentrant_forward: CodeType = checkpoint.CheckpointFunction.forward.__code__
_reentrant_backward: CodeType = checkpoint.CheckpointFunction.backward.__code__
_FILE, _AGAIN = checkpoint.__file__, "recompute_fn"


def in_backward() -> bool:
    """Whether this thread runs inside a backward pass."""
    return bool(current_graph_task_id() != -1)


def is_recording() -> bool:
    """Whether gradients will flow through what a module computes now, and it is not computed for the second time."""
    return torch.is_grad_enabled() and (current_graph_task_id() == -1 or not _is_repetition())


def is_repeated() -> bool:
    """Whether another forward of the same checkpointed function counts instead of this one."""
    if torch.is_grad_enabled():
        return bool(current_graph_task_id() != -1) and _is_repetition()
    return is_first_of_two()


def is_first_of_two() -> bool:
    """Whether this is the forward, without gradients, of a function that is checkpointed with reentry."""
    return _nearest() is _reentrant_forward


def _is_repetition() -> bool:
    found = _nearest()
    return found is not None and found.co_name == _AGAIN


def _nearest() -> CodeType | None:
    """The innermost function of torch's checkpointing that is running."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if code is _reentrant_forward or code is _reentrant_backward:
            return code
        if code.co_name == _AGAIN and code.co_filename == _FILE:
            return code
        frame = frame.f_back
    return None
