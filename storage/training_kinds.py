"""The kinds of training that are told apart, by the words that events and the configuration use."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from .records import Event, Json

__all__ = ["KINDS", "TrainingKind", "kind_of_events"]

#: What a run page calls each kind.
KINDS: Final[Mapping[str, str]] = {
    "classification": "classification",
    "regression": "regression",
    "language_model": "language model",
    "adversarial": "generative (adversarial)",
    "autoencoder": "generative (autoencoder)",
    "diffusion": "generative (diffusion)",
    "flow": "generative (likelihood of a flow)",
    "policy": "reinforcement learning (policy)",
    "value": "reinforcement learning (value)",
    "preference": "preference learning (pairs)",
    "contrastive": "self-supervised (contrastive)",
    "meta": "meta-learning",
    "physics": "differential equation",
    "other": "of no known kind",
}


@dataclass(frozen=True, slots=True)
class TrainingKind:
    """What kind of training a run is.

    Args:
        name: A key of `KINDS`; empty where it is not known.
        reasons: The facts that tell.
        is_full_batch: Whether every step is given all data, by design.
        is_fine_tuning: Whether a part of the model is frozen.
        is_given: Whether the configuration says so.
    """

    name: str = ""
    reasons: tuple[str, ...] = ()
    is_full_batch: bool = False
    is_fine_tuning: bool = False
    is_given: bool = False

    @property
    def label(self) -> str:
        """What a person reads; empty where nothing is known."""
        parts = [KINDS.get(self.name, self.name)] if self.name else []
        parts += ["full batch"] if self.is_full_batch else []
        parts += ["with frozen parts"] if self.is_fine_tuning else []
        return ", ".join(parts)

    def to_text(self) -> str:
        """Return the label with its reasons."""
        reasons = "set by the configuration" if self.is_given else "; ".join(self.reasons)
        return f"{self.label} ({reasons})" if reasons and self.label else self.label

    def to_data(self) -> dict[str, Json]:
        """Return the data of an event `training_kind`."""
        return {
            "name": self.name,
            "reasons": list(self.reasons),
            "full_batch": self.is_full_batch,
            "fine_tuning": self.is_fine_tuning,
            "given": self.is_given,
        }

    @staticmethod
    def of(event: Event) -> "TrainingKind":
        """Return the kind that an event `training_kind` tells."""
        data = event.data
        reasons = data.get("reasons")
        return TrainingKind(
            str(data.get("name", "")),
            tuple(map(str, reasons)) if isinstance(reasons, list) else (),
            data.get("full_batch") is True,
            data.get("fine_tuning") is True,
            data.get("given") is True,
        )


def kind_of_events(events: Iterable[Event]) -> TrainingKind:
    """Return the newest kind that these events tell."""
    kinds = [TrainingKind.of(event) for event in events if event.kind == "training_kind"]
    return kinds[-1] if kinds else TrainingKind()
