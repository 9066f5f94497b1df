"""How often each token occurs in a batch, against the batches before it, in one pass over the batch.

Tokens are counted in 1024 buckets by the last ten bits of their number: exactly, for vocabularies of up to 1024 words.
Folding a larger one can only lower an entropy or a divergence, never raise it, so that what is seen is there.

Reference:
    Cover and Thomas 2006, Elements of Information Theory, sections 2.3 (divergence) and 2.8 (data processing).
"""

from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["BUCKETS", "TOKENS", "count_tokens"]

#: Entropy of the tokens' frequencies in nats; share of the most frequent one; divergence in nats of this batch from
#: those before; NaN of the first.
TOKENS: Final = ("entropy", "top_share", "divergence")
BUCKETS: Final = 1024
_LAST: Final = BUCKETS - 1
#: Share of the earlier counts that each batch keeps: about the last hundred batches matter. Our choice.
_KEPT: Final = 0.99

_Numbers = NDArray[np.int64] | NDArray[np.int32]


@njit(nogil=True, cache=True)
def count_tokens(tokens: _Numbers, before: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Fill `out` with the numbers of `TOKENS` and add the batch to `before`.

    Args:
        tokens: `(n,)`.
        before: `(1024,)` decayed counts of earlier batches, zeros at first. A bucket that was never seen counts as seen
            once, so that new words are surprising and not impossible.
        out: `(3,)`; NaN where there are no tokens.
    """
    out[:] = np.nan
    if tokens.size == 0:
        return
    counts = np.zeros(BUCKETS)
    for i in range(tokens.size):
        counts[tokens[i] & _LAST] += 1.0
    total, known = float(tokens.size), before.sum()
    entropy, top, divergence = 0.0, 0.0, 0.0
    for bucket in range(BUCKETS):
        count = counts[bucket]
        if count > 0.0:
            share = count / total
            entropy -= share * np.log(share)
            top = max(top, share)
            divergence += share * np.log(share * (known + BUCKETS) / (before[bucket] + 1.0))
        before[bucket] = _KEPT * before[bucket] + count
    out[0], out[1] = entropy, top
    if known > 0.0:
        out[2] = divergence
