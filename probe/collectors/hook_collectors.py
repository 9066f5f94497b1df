"""Collectors that hooks fill during forward and backward passes, collectives and operators."""

from ..kernels import STATISTICS, measure
from ..quantities.attention_statistics import ATTENTION as ATTENTION_COLUMNS
from ..quantities.router_statistics import ROUTER as ROUTER_COLUMNS
from ..quantities.silent_units import UNITS as UNIT_COLUMNS
from .collector import array_collector

ACTIVATION = array_collector(
    "activation",
    measure,
    at="forward",
    columns=STATISTICS,
    doc="""Statistics of every module's output, read as the module returns, before anything can change it in place.

    The first tensor of a nested output has the module's own site; others have their path behind it: `lstm[1][0]`.""",
)


ACTIVATION_GRAD = array_collector(
    "activation_grad",
    measure,
    at="backward",
    columns=STATISTICS,
    doc="""Statistics of the gradient that arrives at every module's output, summed over all uses of the output.""",
)


ATTENTION = array_collector(
    "attention",
    None,
    at="forward",
    columns=ATTENTION_COLUMNS,
    rarity=10,
    doc="""Mean entropy of the attention weights (`entropy_min`: that of the head with the least), its share of the
    largest possible and the largest logit at every call: of one sample of the batch, another at every step in turn, and
    of at most 16 heads and 16 queries of it.

    Seen are `scaled_dot_product_attention` of torch and of the engine, and softmax over the last axis inside modules
    whose class is called after attention; the site is that of the innermost watched module. Calls inside of
    `torch.compile`, and inside of compiled functions of the engine, are not seen. At every tenth due step and in
    modules called after attention only, unless the configuration names it; a look costs about 0.1 ms a call. On an
    accelerator the numbers are made there, and read one step later.""",
)


BATCH = array_collector(
    "batch",
    None,
    at="forward",
    columns=STATISTICS,
    doc="""What the model was called with: checksum, statistics, frequencies of tokens.

    The scalars `batch/checksum` (exact, of every value; the order of samples does not matter), `batch/samples` and
    `batch/tokens`; subject `batch` with the statistics of every input, `batch/eval` with those of forwards in
    evaluation mode or without gradients, `batch/tokens` with how usual the tokens of integer inputs are. Statistics are
    those of all elements up to 131072, of larger inputs those of 16384, evenly spread. Of inputs on an accelerator the
    sample, the checksum and up to a million tokens travel, and are read one step later. Costs about 10 us a forward and
    one read of the batch, two of other dtypes than float32: 20 us for 100 000 float32, 10 us for 1000 tokens.""",
)


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


INPUT = array_collector(
    "input",
    measure,
    at="forward",
    columns=STATISTICS,
    is_optional=True,
    doc="""Statistics of every module's inputs, positional and by keyword, read before the module can change them.

    The first tensor has the module's own site; others have their path behind it: `attn[1]`, `attn[mask]`. Off unless
    the configuration names it: most inputs are the outputs of other modules.""",
)

INPUT_GRAD = array_collector(
    "input_grad",
    measure,
    at="backward",
    columns=STATISTICS,
    is_optional=True,
    doc="""Statistics of the gradient of every module's inputs, summed over all uses of the tensor.

    Off unless the configuration names it.""",
)


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


ROUTER = array_collector(
    "router",
    None,
    at="forward",
    columns=ROUTER_COLUMNS,
    rarity=10,
    doc="""How a router spreads its tokens: entropy, load, dropped tokens; at `site[e]` the share of expert `e`.

    Modules with a child `router` and a number `top_k`, as the engine's mixture, are found by themselves; `routers` of
    the configuration names others. Subjects `router` and `router/expert`. At every tenth due step, unless the
    configuration names it; a look costs about 0.1 ms a router.""",
)


UNITS = array_collector(
    "activation/units",
    None,
    at="forward",
    columns=UNIT_COLUMNS,
    rarity=5,
    doc="""Share of a layer's units that are dead, and of those that are saturated, at every fifth due step.

    Looked at are modules whose class is called after ReLU, sigmoid, tanh or softmax. A unit is a column of the last
    axis, of images a channel. It is dead when it has put out exactly zero for every sample of the last three looks, NaN
    before there are three. It is saturated when at 95 % of its samples the slope is below 5 % of its largest; of a
    softmax it is the rows that are counted whose largest share is above 0.99. About 8192 elements of a layer are looked
    at, other samples every time. Tensors on an accelerator are not read. Costs about
    25 us a layer and look, of ReLU 10 us.""",
)
