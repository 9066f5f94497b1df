"""Where a run's time and memory go, and what would make it faster."""

from .advice import Advice, advise
from .communication import Collective, RankTime
from .memory import MemoryPart, MemoryUse
from .operators import Holder, Operator, Profiled, Span
from .profile import Profile, profile
from .render import render_profile
from .split import StepSplit
from .trace import chrome_trace

__all__ = [
    "Advice",
    "Collective",
    "Holder",
    "MemoryPart",
    "MemoryUse",
    "Operator",
    "Profile",
    "Profiled",
    "RankTime",
    "Span",
    "StepSplit",
    "advise",
    "chrome_trace",
    "profile",
    "render_profile",
]
