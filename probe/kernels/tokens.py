"""How often each token occurs in a batch, against the batches before it, in one pass over the batch.

Tokens are counted in 1024 buckets by the last ten bits of their number: exactly, for vocabularies of up to 1024 words.
Folding a larger one can only lower an entropy or a divergence, never raise it, so that what is seen is there.

Reference:
    Cover and Thomas 2006, Elements of Information Theory, sections 2.3 (divergence) and 2.8 (data processing).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from .machine_code import Kernel

__all__ = ["BUCKETS", "KEPT", "TOKENS", "count_tokens"]

#: Entropy of the tokens' frequencies in nats; share of the most frequent one; divergence in nats of this batch from
#: those before; NaN of the first.
TOKENS: Final = ("entropy", "top_share", "divergence")
BUCKETS: Final = 1024
#: Share of the earlier counts that each batch keeps: about the last hundred batches matter. Our choice.
KEPT: Final = 0.99

_Numbers = NDArray[np.int64] | NDArray[np.int32]


_count_tokens: Final = Kernel("counting", "count_tokens", "v", "qqqqq")


def count_tokens(tokens: _Numbers, before: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Fill `out` with the numbers of `TOKENS` and add the batch to `before`.

    Args:
        tokens: `(n,)`.
        before: `(1024,)` decayed counts of earlier batches, zeros at first. A bucket that was never seen counts as seen
            once, so that new words are surprising and not impossible.
        out: `(3,)`; NaN where there are no tokens.
    """
    filled = np.ascontiguousarray(tokens)
    is_wide = int(filled.dtype.itemsize == 8)
    _count_tokens(filled.ctypes.data, filled.size, is_wide, before.ctypes.data, out.ctypes.data)
