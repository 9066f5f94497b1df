"""Tells when the targets of a training have changed: its loss rises, and every layer puts out what it usually does."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isnan
from typing import Final

from ...storage import Finding
from ..context.step_context import StepContext
from ..running_statistics import Floats, RobustBaseline, StepWindow, Streak
from .label_findings import report
from .loss_anchor import LossAnchor
from .lowered_findings import asked, withdrawn
from .update_stability import LastStep, has_begun_anew
from .usual_outputs import is_usual

#: Records that the loss must stay up, deviations and share of its progress by which it rises, and records of outputs
#: that are remembered. Our choice.
_LASTING, _STRANGE, _PROGRESS, _HISTORY = 3, 8.0, 0.5, 8
#: Records that tell where the loss is, and after which it is looked at whether it came back.
_WINDOW: Final = 24


@dataclass(slots=True)
class ChangedTargets:
    """The usual loss and outputs, and for how long the loss has been above it."""

    loss: RobustBaseline = field(default_factory=RobustBaseline)
    first: float = float("nan")
    last_step: LastStep = field(default_factory=LastStep)
    norms: deque[Floats] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    above: Streak = field(default_factory=Streak)
    is_forward_usual: bool = False
    usual: float = float("nan")
    found: Finding | None = None

    def check(
        self, context: StepContext, loss: float, recent: StepWindow, anchor: LossAnchor, reported: set[str]
    ) -> Iterator[Finding]:
        """Yield a finding once the loss has stayed up, and withdraw it when the loss comes back.

        Inputs and weights have not changed then, so the targets have, or the loss itself.

        Args:
            loss: Of this record, finite.
            recent: The newest losses.
            anchor: What is known of the loss.
            reported: What the rule has reported; `step` is added to it.
        """
        yield from self._back(context, recent)
        table = context.table("activation")
        self.first = loss if isnan(self.first) else self.first
        usual, lowest = self.loss.value, min(recent.newest(_WINDOW), default=loss)
        progress = max(self.first - usual, 0.1 * abs(self.first))
        rises = self.loss.update(loss) > _STRANGE and loss - usual > _PROGRESS * progress
        if rises and self.above.length == 0 and table is not None:
            is_ordinary = self.last_step.is_ordinary and not has_begun_anew(context)
            self.is_forward_usual = lowest >= 0.0 and is_ordinary and is_usual(self.norms, table)
            self.usual = usual
        length = self.above.update(rises, context.step)
        if table is not None and not rises:
            self.norms.append(table.column("l2_norm").copy())
        makes_its_own = anchor.self_made.is_self_made or anchor.has_growing_data
        if length == _LASTING and self.is_forward_usual and "step" not in reported and not makes_its_own:
            reported.add("step")
            self.found = self._found(context, loss, anchor)
            yield self.found
        self.last_step.learn(context)

    def _found(self, context: StepContext, loss: float, anchor: LossAnchor) -> Finding:
        found = report(
            context,
            {"loss": loss, "usual_loss": self.usual, "records": self.above.length},
            f"the loss went from {self.usual:.4g} to {loss:.4g} at step {self.above.since} and stays up, although "
            "every layer's output was as usual in that step; inputs and weights have not changed, so the labels have",
            self.above.since,
            0.7,
        )
        is_sum = (anchor.called or context.learner) and not anchor.is_one_known_loss(context)
        words = f"{found.explanation.rpartition('; ')[0]}; have the labels changed?"
        return asked(found, words) if is_sum else found

    def _back(self, context: StepContext, recent: StepWindow) -> Iterator[Finding]:
        found = self.found
        is_settled = found is not None and context.step >= found.step + _WINDOW
        if found is not None and is_settled and recent.median() < found.evidence["usual_loss"]:
            self.found = None
            yield withdrawn(found, context, f"{found.explanation}; it is lower again by step {context.step}")
