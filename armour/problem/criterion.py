"""Criteria for adversarial inputs: values made for a batch and combined with `&`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from ..array_api import Array, Rows, is_class, namespace, take
from ..model.task import Task


class Criterion(ABC):
    """A test whether inputs are adversarial, and the class that a search moves away from or towards."""

    @property
    @abstractmethod
    def anchor(self) -> Array:
        """`(n,)` integer classes that the search moves away from, or towards when targeted."""

    @property
    @abstractmethod
    def is_targeted(self) -> bool:
        """True when the anchor is to be reached."""

    @property
    @abstractmethod
    def lead(self) -> float:
        """The margin by which the winning logit must lead."""

    @abstractmethod
    def met(self, logits: Array) -> Array:
        """Return `(n,)` bool, True where the `(n, classes)` logits make the input adversarial."""

    @abstractmethod
    def take(self, rows: Rows) -> "Criterion":
        """Return the same criterion for these samples of the batch."""

    @property
    def of_classes(self) -> "Criterion":
        """The criterion that a search climbs for, on what `class_logits` returns."""
        return self

    def class_logits(self, outputs: Array) -> Array:
        """Return `(n, classes)` logits of the model's outputs: these themselves, unless a task gives them a meaning."""
        return outputs

    def pull(self, outputs: Array, cotangent: Array) -> Array:
        """Return the gradient to the outputs of the product of their class logits with the cotangent."""
        return cotangent

    def __and__(self, other: "Criterion") -> "Criterion":
        return Both(self, other)


@dataclass(frozen=True, slots=True, eq=False)
class Misclassification(Criterion):
    """A criterion: the model no longer predicts the label.

    Args:
        labels: `(n,)` true classes.
        margin: By how much another logit must lead the label's; 0 asks for another prediction only.
    """

    labels: Array
    margin: float = 0.0

    @property
    def anchor(self) -> Array:
        """The labels, to move away from."""
        return self.labels

    @property
    def is_targeted(self) -> bool:
        """False."""
        return False

    @property
    def lead(self) -> float:
        """The margin."""
        return self.margin

    def met(self, logits: Array) -> Array:
        """Return `(n,)` bool, True where the prediction is not the label, by the margin."""
        if self.margin:
            return -_lead(logits, self.labels) >= self.margin
        return namespace(logits).argmax(logits, axis=1) != self.labels

    def take(self, rows: Rows) -> "Misclassification":
        """Return the same criterion for these samples."""
        return Misclassification(take(self.labels, rows), self.margin)


@dataclass(frozen=True, slots=True, eq=False)
class Targeted(Criterion):
    """A criterion: the model predicts the target class.

    Args:
        targets: `(n,)` classes to reach.
        margin: By how much the target's logit must lead all others; 0 asks for the prediction only.
    """

    targets: Array
    margin: float = 0.0

    @property
    def anchor(self) -> Array:
        """The targets, to move towards."""
        return self.targets

    @property
    def is_targeted(self) -> bool:
        """True."""
        return True

    @property
    def lead(self) -> float:
        """The margin."""
        return self.margin

    def met(self, logits: Array) -> Array:
        """Return `(n,)` bool, True where the prediction is the target, by the margin."""
        if self.margin:
            return _lead(logits, self.targets) >= self.margin
        return namespace(logits).argmax(logits, axis=1) == self.targets

    def take(self, rows: Rows) -> "Targeted":
        """Return the same criterion for these samples."""
        return Targeted(take(self.targets, rows), self.margin)


@dataclass(frozen=True, slots=True, eq=False)
class Both(Criterion):
    """A criterion: both criteria are met; the first one leads the search."""

    first: Criterion
    second: Criterion

    @property
    def anchor(self) -> Array:
        """The anchor of the first criterion."""
        return self.first.anchor

    @property
    def is_targeted(self) -> bool:
        """Whether the first criterion is."""
        return self.first.is_targeted

    @property
    def lead(self) -> float:
        """The larger of both."""
        return max(self.first.lead, self.second.lead)

    def met(self, logits: Array) -> Array:
        """Return `(n,)` bool, True where both are met."""
        return self.first.met(logits) & self.second.met(logits)

    def take(self, rows: Rows) -> "Both":
        """Return both criteria for these samples."""
        return Both(self.first.take(rows), self.second.take(rows))


@dataclass(frozen=True, slots=True, eq=False)
class Broken(Criterion):
    """A criterion: by its task, the output is wrong; a search sees the two classes kept and broken.

    Args:
        y: `(n, ...)` what the outputs should be, as the task's `check` returns it.
        margin: By how much it must be wrong.
    """

    task: Task
    y: Array
    margin: float = 0.0

    @property
    def anchor(self) -> Array:
        """The class kept, to move away from."""
        return namespace(self.y).zeros_like(self.y.reshape(len(self.y), -1)[:, 0], dtype=namespace(self.y).int64)

    @property
    def is_targeted(self) -> bool:
        """False."""
        return False

    @property
    def lead(self) -> float:
        """The margin."""
        return self.margin

    @property
    def of_classes(self) -> Misclassification:
        """Misclassification of what is kept."""
        return Misclassification(self.anchor, self.margin)

    def class_logits(self, outputs: Array) -> Array:
        """Return 0 and the task's excess."""
        excess = self.task.excess(outputs, self.y)[:, None]
        return namespace(excess).concat([namespace(excess).zeros_like(excess), excess], axis=1)

    def pull(self, outputs: Array, cotangent: Array) -> Array:
        """Return the task's slope times the cotangent of the excess."""
        slope = self.task.slope(outputs, self.y)
        return slope * cotangent[:, 1].reshape((-1,) + (1,) * (len(slope.shape) - 1))

    def met(self, logits: Array) -> Array:
        """Return `(n,)` bool, True where the outputs of the model are wrong by the margin."""
        return self.of_classes.met(self.class_logits(logits))

    def take(self, rows: Rows) -> "Broken":
        """Return the same criterion for these samples."""
        return Broken(self.task, take(self.y, rows), self.margin)


def _lead(logits: Array, classes: Array) -> Array:
    """Return `(n,)` leads of each row's own class over the best of the others; negative where it does not lead."""
    xp = namespace(logits)
    own = is_class(logits, classes)
    best_other = xp.max(xp.where(own, -xp.inf, logits), axis=1)
    return xp.sum(xp.where(own, logits, 0.0), axis=1) - best_other
