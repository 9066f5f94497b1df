"""Operators: what a step does inside, call by call, and what memory it takes."""

from .collector import array_collector

OPERATOR = array_collector(
    "operator",
    None,
    at="forward",
    columns=(),
    is_optional=True,
    doc="""Every operator of a step, from the model's call to the step's end: times, allocations, memory at its peak.

    Becomes one event `operators` of the step, which `mindscope profile` reads. The engine's primitives are timed one by
    one; of PyTorch its own profiler is asked, on the host. Compiled code is not seen from inside. A step that is looked
    at takes about 30 us an operator longer (65 operators of the engine 2 ms, 425 of PyTorch 13 ms): name few steps, as
    `subjects: {operator: {first: 3}}` or `{operator: {windows: [[1000, 1002]]}}`.""",
)
