"""What every tool that watches a training is for the benchmark: an attachment and the calls it wants in the loop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: What is recorded, from most to least; a tool may know only some of them.
ROWS = ("gradients", "everything", "every 10th", "nothing due", "detached")


def _nothing(*_: Any) -> None:
    """Nothing to do."""


@dataclass(frozen=True)
class Attached:
    """A tool on a model.

    Args:
        after_backward: Called with the loss between the backward pass and the optimizer's step.
        after_step: Called with the loss behind the optimizer's step.
        finish: Ends a block: what was recorded is where it belongs.
        close: Ends the training.
    """

    after_backward: Callable[[Any], object] = _nothing
    after_step: Callable[[Any], object] = _nothing
    finish: Callable[[], object] = _nothing
    close: Callable[[], object] = _nothing


#: Attaches a tool to a model and its optimizer, for one row, and lets it write into the folder.
Attach = Callable[[Any, Any, str, str], Attached]
