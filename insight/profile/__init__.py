"""Where a run's time and memory go, and what would make it faster."""

from .chrome_trace import chrome_trace
from .memory_use import MemoryPart, MemoryUse
from .operator_profile import Holder, Operator, Profiled, Span
from .run_profile import Advice, Profile, advise, profile, render_profile
from .step_split import Collective, RankTime, StepSplit

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
