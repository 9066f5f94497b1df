"""Replay: one recorded module, computed again in float64 from its dumped inputs and weights."""

from .judge import Judgement, judge
from .recorded import Call, check_recorded
from .repeat import Replayed, replay

__all__ = ["Call", "Judgement", "Replayed", "check_recorded", "judge", "replay"]
