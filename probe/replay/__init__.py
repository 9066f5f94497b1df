"""Replay: one recorded module, computed again in float64 from its dumped inputs and weights."""

from typing import TYPE_CHECKING

from ...storage.renamed_names import renamed
from .judge import Judgement, judge
from .recorded_call import CallReference, check_recorded
from .repeat import Replayed, replay

__all__ = ["CallReference", "Judgement", "Replayed", "check_recorded", "judge", "replay"]

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, {"Call": "CallReference"})
