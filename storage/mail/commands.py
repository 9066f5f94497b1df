"""What a person tells a running training, and where it says that it is; both lie in the run's mailbox.

`command` holds a number, what to `do` (`pause`, `step`, `continue`, `stop`, `show`) and what belongs to it. `state`
gives the number of the last command that was obeyed, where the training stands, why it waits, and what it was asked to
show. A training looks for commands at the end of its steps.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from .mailbox import Mailbox

COMMAND: Final = "command"
STATE: Final = "state"

Deed = Literal["pause", "step", "continue", "stop", "show"]
#: How often an answer is looked for.
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class TrainingState:
    """Where a training says that it is.

    Args:
        state: `running`, `paused` or `stopped`; `running` also for one that never had anything to say.
        step: The last step that was over when it said so; -1 when it never did.
        why: It waits.
        obeyed: Number of the last command that it obeyed.
        tensors: What it was asked to show: by site shape, dtype, extremes and the first values, or an `error`.
    """

    state: str = "running"
    step: int = -1
    why: str = ""
    obeyed: int = 0
    tensors: Mapping[str, Any] = field(default_factory=dict)  # Any: numbers, words and lists, as JSON knows them


def state_of(mailbox: Mailbox) -> TrainingState:
    """Where the training says that it is.

    Raises:
        StoreUnavailable: The mailbox cannot be read.
    """
    found = mailbox.read(STATE)
    return TrainingState() if found is None else TrainingState(**found)


def send(mailbox: Mailbox, do: Deed, *, steps: int = 1, subject: str = "weight", sites: str = "*") -> int:
    """The number of the command that the training will find at the end of its step.

    Args:
        steps: After how many it waits again, for `step`.
        subject: `weight` or `gradient`, for `show`.
        sites: A glob, for `show`.

    Raises:
        StoreUnavailable: The mailbox cannot be written.
    """
    before = mailbox.read(COMMAND)
    number = 1 + (0 if before is None else int(before["number"]))
    mailbox.post(COMMAND, {"number": number, "do": do, "steps": steps, "subject": subject, "sites": sites})
    return number


def wait_for(
    mailbox: Mailbox,
    number: int,
    timeout_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> TrainingState | None:
    """The state once the command with this number has been obeyed; None when it was not within the time."""
    end = clock() + timeout_s
    while (state := state_of(mailbox)).obeyed < number:
        if clock() >= end:
            return None
        sleep(_LOOK_S)
    return state
