"""Traces of torch.profiler and others in Chrome's format: jobs that nobody watched, read and split into their times.

Start reading in `job_trace.py`, which puts the ranks of a job on one clock.
"""

from .device_idle import LaunchCost, QueueLength, StreamIdle, launch_cost, queue_lengths, stream_idle
from .job_trace import JobTrace, read_traces
from .time_breakdown import Copy, OperationTime, TimeBreakdown, copies, operation_times, time_breakdown
from .trace_difference import TraceDifference, trace_difference

__all__ = [
    "Copy",
    "JobTrace",
    "LaunchCost",
    "OperationTime",
    "QueueLength",
    "StreamIdle",
    "TimeBreakdown",
    "TraceDifference",
    "copies",
    "launch_cost",
    "operation_times",
    "queue_lengths",
    "read_traces",
    "stream_idle",
    "time_breakdown",
    "trace_difference",
]
