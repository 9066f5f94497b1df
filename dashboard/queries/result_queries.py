"""The loss of a run as pages quote it: its last and its best value, and the curve of each learner."""

from dataclasses import dataclass

from ...insight.learner_rules import learner_names
from ...insight.loss_levels import LossEnds, ends_of
from ...insight.result_scalars import main_scalar
from ...storage import Run
from .reader import Reader


@dataclass(frozen=True, slots=True)
class MainLoss:
    """The scalar by which a run is judged.

    Args:
        name: Of the scalar, `loss` where there is one; empty where nothing like it was recorded.
        ends: Its first, last and best value.
        learners: The scalars of the learners' own losses, `G/loss`, where there are several.
    """

    name: str
    ends: LossEnds
    learners: tuple[str, ...] = ()


def main_loss(reader: Reader, run: Run) -> MainLoss:
    """Return the loss of the run's first rank."""
    name = main_scalar(reader.scalars(run.id))
    return MainLoss(name, ends_of(reader.scalar(run.id, name)) if name else LossEnds(), learner_scalars(reader, run.id))


def learner_scalars(reader: Reader, run: str) -> tuple[str, ...]:
    """Return the scalars of the losses of several learners; empty where one learns."""
    events = reader.cached(run, ("events", "learners"), lambda store: store.events(run, kind="learners"))
    named = dict.fromkeys(name for event in events for name in learner_names(event))
    scalars = reader.scalars(run)
    found = tuple(f"{name}/loss" for name in named if f"{name}/loss" in scalars)
    return found if len(found) > 1 else ()
