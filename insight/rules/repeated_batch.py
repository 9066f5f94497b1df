"""The same batch again and again."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...storage import ROOT_SITE, Finding
from ..recording import Recording, chain
from ..rule import FORWARD, rule
from ..view.moment import Moment

_MODEL = chain("one:Dense", "two:Dense")
#: So many batches in a row that are all the same: an epoch boundary can repeat one, a shuffled epoch not five.
_IN_A_ROW = 5


@dataclass(slots=True)
class _Memory:
    """The latest checksums."""

    latest: deque[float] = field(default_factory=lambda: deque(maxlen=_IN_A_ROW))
    since: int = 0
    has_varied: bool = False
    is_said: bool = False


@rule(
    "repeated-batch",
    needs=("scalar/batch/checksum",),
    phase=FORWARD,
    memory=_Memory,
    warm_up=_IN_A_ROW,
    is_fact=True,
    is_optional=True,
    asks="intent",
    fires_on=(
        Recording({"scalar/batch/checksum": (7.0,) * 8}, _MODEL),
        Recording({"scalar/batch/checksum": (1.0, 2.0, 3.0, *(4.0,) * 8)}, _MODEL),
    ),
    silent_on=(
        Recording({"scalar/batch/checksum": (1.0, 2.0, 3.0, 4.0) * 6}, _MODEL),
        Recording({"scalar/batch/checksum": (1.0, 2.0, 2.0, 3.0) * 6}, _MODEL),
    ),
)
def check(now: Moment, memory: _Memory) -> Iterator[Finding]:
    """Five batches in a row have the same checksum.

    Equal checksums of the model's inputs mean equal inputs. Whether that is meant only the person knows: training on
    the whole data set at once, or on one batch to see whether it can be learned, looks the same.
    """
    checksum = now.scalar("batch/checksum")
    if checksum is None or memory.is_said:
        return
    if memory.latest and checksum != memory.latest[-1]:
        memory.has_varied, memory.since = True, now.step
        memory.latest.clear()
    memory.since = now.step if not memory.latest else memory.since
    memory.latest.append(checksum)
    if len(memory.latest) < _IN_A_ROW:
        return
    memory.is_said = True
    yield now.finding(
        ROOT_SITE,
        "scalar/batch/checksum",
        {"checksum": checksum, "batches": len(memory.latest), "varied_before": float(memory.has_varied)},
        severity="error" if memory.has_varied else "warning",
        first_step=memory.since,
        place=0,
        explanation=f"every batch since step {memory.since} is the same, value for value"
        + (", while those before were not" if memory.has_varied else ", and so were all before"),
        advice="look for next(iter(loader)) inside the loop, a sampler that is made anew with the same seed, or a "
        "loader "
        "that has run dry; if the data set is one batch, this is as it should be",
    )
