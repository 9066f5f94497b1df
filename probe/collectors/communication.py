"""Collectives: what every process gave, what came out, how much and how long."""

from ..kernels import STATISTICS, measure
from .collector import array_collector

#: Behind the statistics: bytes given, seconds from the call to the result, and of these the seconds spent waiting.
COSTS = ("bytes", "seconds", "wait_seconds")

COMMUNICATION = array_collector(
    "communication",
    measure,
    at="forward",
    columns=(*STATISTICS, *COSTS),
    doc="""Statistics of what every collective of torch.distributed gave to this process, its bytes and its times.

    The site is `operation/group`, as `all_reduce/world`; a call is the number within the step. What DDP's own reducer
    sends is not a call from Python and is not seen: `gradient/unreduced` beside `gradient` shows what it did.""",
)

COMMUNICATION_BEFORE = array_collector(
    "communication/before",
    measure,
    at="forward",
    columns=STATISTICS,
    doc="""Statistics of what this process put into every collective, read before it may be overwritten.""",
)
