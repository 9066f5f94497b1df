"""Tells whether the loss means something by its level: it is one known loss of one network on data of others."""

from dataclasses import dataclass, field
from math import isfinite, log, log2, nan, sqrt
from typing import Final

from ...storage import ROOT_SITE, Event
from ..context.step_context import StepContext
from ..event_fields import number
from ..running_statistics import Window, trend
from .policy_training import SelfMadeData
from .tried_direction import maximises

#: Losses of classification, whose level without knowledge is the entropy of the labels, by the probe's names.
OF_CLASSES: Final = frozenset({"cross_entropy", "nll_loss"})
#: Losses that cannot be negative and have their floor at a perfect answer, by the probe's names.
NOT_NEGATIVE: Final = frozenset(
    {
        "cross_entropy",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
    }
)
#: Relative error within which two quotients of a backward pass and its loss function are the same.
EXACT: Final = 1e-3
#: Factors that are kept: with more of them the loss has further terms.
_KEPT: Final = 4
#: Newest inputs, and the Mann-Kendall score of their scale beyond which it grows.
_WINDOW, _GROWS = 12, 2.0


@dataclass(slots=True)
class KnownLoss:
    """What is known of the loss: the functions that compute it, what is added to it, and the cost of guessing.

    Attributes:
        called: The loss functions called so far.
        factors: The value that backward started from, over that of the loss function; one for each value it has had.
        unknown: Times that the factor could not be told, as where several functions are called.
        guessing: Cost of the best constant answer in nats; NaN where no loss of classes was called.
    """

    called: set[str] = field(default_factory=set)
    unknown: int = 0
    factors: list[float] = field(default_factory=list)
    guessing: float = nan

    def learn_event(self, event: Event) -> None:
        """Take what the event tells of the loss."""
        if event.kind == "loss_input":
            name, columns = str(event.data.get("loss")), number(event, "columns")
            self.called.add(name)
            if name in OF_CLASSES and columns > 1 and not isfinite(self.guessing):
                self.guessing = log(columns)
        elif event.kind == "accumulation":
            factor = number(event, "factor")
            self.unknown += not isfinite(factor)
            if isfinite(factor) and len(self.factors) < _KEPT:
                self.factors.append(factor)

    def learn_entropy(self, entropy: float | None) -> None:
        """Take the entropy of the labels so far, which the best constant answer costs."""
        if entropy is not None and isfinite(entropy) and entropy > 0.0 and self.called & OF_CLASSES:
            self.guessing = entropy

    @property
    def has_terms(self) -> bool:
        """True if the quotient has changed other than by a power of two: something is added to the loss function.

        A change of the sign alone is a changed sign.
        """
        return any(not _is_octave(factor / self.factors[0]) for factor in self.factors[1:] if self.factors[0])

    @property
    def is_known(self) -> bool:
        """True if the loss is one known function, with nothing added."""
        is_one = len(self.called) == 1 and self.called <= NOT_NEGATIVE | OF_CLASSES
        return is_one and not self.has_terms and not self.unknown


@dataclass(slots=True)
class LossAnchor(KnownLoss):
    """What is known of the loss, and whether its level tells how much was learned.

    The loss of a policy, of one of two players, or a sum of terms may rise, be negative or stay where it is, and the
    training goes well. Only a loss that is one known function of the predictions and given targets, times a constant,
    has a level that means something.
    """

    self_made: SelfMadeData = field(default_factory=SelfMadeData)
    scales: Window = field(default_factory=lambda: Window(_WINDOW))

    def learn(self, context: StepContext) -> None:
        """Take what this record tells of the loss."""
        self.self_made.learn(context)
        self.scales.add(_scale(context))
        for event in context.record.events:
            self.learn_event(event)
        self.learn_entropy(context.scalar("target/entropy"))

    @property
    def has_growing_data(self) -> bool:
        """True if the scale of the input grows, as in a curriculum: then the loss may rise with it."""
        return trend(self.scales.newest(_WINDOW)) > _GROWS

    @property
    def is_of_guessing(self) -> bool:
        """True if the cost of guessing says how much was learned: the loss has one term, and its data stay alike."""
        return (not self.called or self.is_known) and not self.has_growing_data

    def is_cost(self, context: StepContext) -> bool:
        """Return whether the loss is one function that cannot be negative, times a constant, maximised or not."""
        return self.is_one_known_loss(context, may_be_maximised=True) and self.called <= NOT_NEGATIVE

    def is_one_known_loss(self, context: StepContext, *, may_be_maximised: bool = False) -> bool:
        """Return whether the loss is one known function of one network's output, times a constant, and is to fall.

        Args:
            may_be_maximised: Whether one counts that every optimizer raises.
        """
        has_one_optimizer = len(context.model.structure.optimizers) <= 1
        is_made = self.self_made.is_self_made
        is_surrogate = context.has_a_surrogate_loss or (maximises(context) and not may_be_maximised)
        return self.is_known and has_one_optimizer and not is_surrogate and not is_made


def _scale(context: StepContext) -> float:
    """Return the root mean square of the first input; NaN where it was not recorded."""
    table = context.table("batch")
    if table is None or ROOT_SITE not in table.rows.sites:
        return nan
    row = table.rows.sites.index(ROOT_SITE)
    return table.value(row, "l2_norm") / sqrt(max(table.value(row, "size"), 1.0)) if table.present[row] else nan


def _is_octave(quotient: float) -> bool:
    """Return whether the quotient is a power of two, of either sign."""
    if not isfinite(quotient) or quotient == 0.0:
        return False
    octaves = log2(abs(quotient))
    return abs(octaves - round(octaves)) <= EXACT
