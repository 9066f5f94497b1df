"""Hooks around an update, and the one that keeps it from being made."""

from collections.abc import Sequence

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.framework.hooks import SKIP_STEP

BATCHES = range(6)


def weights_after(batches: Sequence[int], skipped: frozenset[int] = frozenset()) -> bytes:
    model = nn.Dense(4, 3, key=Key(0))
    optimizer = nn.Adam(model.trainable_params(), 0.1)
    seen, ended = [], []
    optimizer.register_step_pre_hook(lambda *_: SKIP_STEP if seen[-1] in skipped else None)
    optimizer.register_step_pre_hook(lambda *_: False)  # any other value means nothing
    optimizer.register_step_post_hook(lambda *_: ended.append(seen[-1]))
    for batch in batches:
        seen.append(batch)
        loss = ops.cross_entropy(model(Tensor(np.full((2, 4), batch, np.float32))), Tensor(np.zeros(2, np.int64)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert ended == list(batches)
    assert optimizer.step_count == len(set(batches) - skipped)
    return model.weight.numpy().tobytes()


@pytest.mark.parametrize("skipped", [{0}, {2, 3}, {5}, set()], ids=str)
def test_a_skipped_update_leaves_no_trace(skipped: set[int]) -> None:
    others = [batch for batch in BATCHES if batch not in skipped]
    assert weights_after(BATCHES, frozenset(skipped)) == weights_after(others)
