"""Labels that come in their order, class after class."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...storage import ROOT_SITE, Event, Finding
from ..context.step_context import StepContext
from ..recording import Recording, chain
from ..rule import LOSS, rule

_MODEL = chain("one:Dense", "two:Dense")
#: Share of the entropy of all labels that a batch's own labels reach at most, batches that must do so, labels in each.
_SHARE, _BATCHES, _FEWEST = 0.35, 5, 8
#: Entropy in nats, from which several classes are known to exist, and neighbouring batches of one class.
_SEVERAL, _NEIGHBOURS = 0.5, 2


@dataclass(slots=True)
class _UnshuffledDataState:
    """How many batches held few classes, and which came after a batch of the same class in the step before."""

    shares: list[float] = field(default_factory=list)
    tops: list[tuple[int, float]] = field(default_factory=list)
    is_reported: bool = False


def _run(
    own: tuple[float, ...], tops: tuple[float, ...], every: str = "target/entropy", kind: str = "classification"
) -> Recording:
    return Recording(
        {
            "scalar/loss": (1.0,) * len(own),
            f"scalar/{every}": tuple(min(2.3, 0.4 * step) for step in range(len(own))),
            "scalar/target/own_entropy": own,
            "scalar/target/own_top": tops,
            "scalar/target/own_counted": 32.0,
        },
        _MODEL,
        events=(Event("training_kind", 0, data={"name": kind}),),
    )


_HALVES = (0.0,) * 6 + (1.0,) * 6


@rule(
    "unshuffled-data",
    needs=("scalar/target/own_entropy",),
    phase=LOSS,
    memory=_UnshuffledDataState,
    is_optional=True,
    fires_on=(
        _run((0.0,) * 12, _HALVES),
        _run((0.0,) * 12, _HALVES, "target/binary_entropy"),
        # two batches of each class
        _run((0.0,) * 12, tuple(float(number // 2) for number in range(12))),
    ),
    silent_on=(
        _run((2.2,) * 12, (0.0, 3.0, 2.0, 1.0) * 3),
        _run((0.0,) * 12, _HALVES, "target/binary_entropy", "adversarial"),
        # two kinds of data take turns, each with one label
        _run((0.0,) * 12, (0.0, 1.0) * 6),
    ),
)
def check(context: StepContext, memory: _UnshuffledDataState) -> Iterator[Finding]:
    """Report batches that hold few classes each, class after class.

    In at least 5 of the batches that were inspected, and in 4 of 5, the entropy of the labels is at most 35 % of that
    of all labels so far, and neighbouring batches are of the same class. Then each step unlearns the classes before.
    Labels may also be real zeros and ones. Data of two kinds that take turns, each with labels of its own, are left
    out, and so are the ones and zeros of a discriminator.
    """
    own, every = context.scalar("target/own_entropy"), context.scalar("target/entropy")
    if every is None and context.kind.name != "adversarial" and not context.model.has_players:
        every = context.scalar("target/binary_entropy")
    counted, top = context.scalar("target/own_counted"), context.scalar("target/own_top")
    if memory.is_reported or own is None or every is None or top is None or (counted or 0.0) < _FEWEST:
        return
    memory.tops.append((context.step, top))
    if every < _SEVERAL:
        return
    memory.shares.append(own / every)
    low = [share for share in memory.shares if share <= _SHARE]
    neighbours = [
        top_before == top_after
        for (before, top_before), (after, top_after) in zip(memory.tops[:-1], memory.tops[1:], strict=True)
        if after - before <= 1
    ]
    is_ordered = neighbours.count(True) >= _NEIGHBOURS and neighbours.count(True) > neighbours.count(False)
    if len(low) < _BATCHES or len(low) < 0.8 * len(memory.shares) or not is_ordered:
        return
    memory.is_reported = True
    yield context.finding(
        ROOT_SITE,
        "scalar/loss",
        {"batch_entropy": own, "label_entropy": every, "batches": len(low)},
        severity="warning",
        first_step=memory.tops[0][0],
        position=0,
        explanation=f"in {len(low)} of {len(memory.shares)} inspected batches the entropy of the labels is at most "
        f"{_SHARE:.0%} of that of all labels ({every:.3g} nats), and neighbouring batches are of the same class",
        advice="shuffle the training data: shuffle=True, or a RandomSampler; with a sampler of your own check that "
        "it draws from all classes",
        confidence=0.8,
    )
