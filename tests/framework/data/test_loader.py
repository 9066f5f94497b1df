"""A loader's place: saved anywhere, resumed there."""

from itertools import islice

import numpy as np
import pytest
from mindscope.framework.data import ArrayDataset, GeneratorDataset, Loader, LoaderState


def _batches(prefetch=None):
    dataset = ArrayDataset(np.arange(7)).shuffle(4).batch(2)
    return dataset if prefetch is None else dataset.prefetch(prefetch)


@pytest.mark.parametrize("prefetch", [None, 3])
@pytest.mark.parametrize("taken", range(10))
def test_a_loader_resumed_anywhere_gives_what_would_have_followed(taken, prefetch):
    whole = Loader(_batches(prefetch))
    items = whole.forever()
    for _ in islice(items, taken):
        pass
    resumed = Loader(_batches(prefetch), whole.state)
    rest, again = (islice(stream, 9) for stream in (items, resumed.forever()))
    assert [x.tolist() for (x,) in rest] == [x.tolist() for (x,) in again]


def test_the_state_counts_what_was_handed_out():
    loader = Loader(_batches())
    states = [loader.state for _ in islice(loader.forever(), 5)]
    assert states == [LoaderState(0, 1), LoaderState(0, 2), LoaderState(0, 3), LoaderState(0, 4), LoaderState(1, 1)]


def test_a_loop_that_breaks_goes_on_where_it_broke():
    loader = Loader(ArrayDataset(np.arange(4)))
    seen = []
    for (x,) in loader:
        seen.append(int(x))
        if x == 1:
            break
    seen += [int(x) for (x,) in loader]
    assert seen == [0, 1, 2, 3]
    assert loader.state == LoaderState(1, 0)
    assert len(loader) == 4


def test_an_endless_loader_without_items_says_so():
    with pytest.raises(ValueError, match="no item in an epoch; is the batch larger than the data"):
        next(Loader(ArrayDataset(np.arange(3)).batch(9, drop_remainder=True)).forever())
    with pytest.raises(ValueError, match="no item in an epoch"):
        next(Loader(GeneratorDataset(lambda epoch: [])).forever())
