"""Batches: what the model is called with, in training and in evaluation."""

from ..kernels import STATISTICS
from .collector import array_collector

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
