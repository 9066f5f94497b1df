"""Datasets: what an epoch holds, in which order, and that bad data is told of early."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.framework.data import ArrayDataset, GeneratorDataset


def _arrays(count):
    return ArrayDataset(np.arange(count), np.arange(count) * 10)


def _generated(count):
    return GeneratorDataset(lambda epoch: ((np.int64(i), np.int64(10 * i)) for i in range(count)), length=count)


SOURCES = {"arrays": _arrays, "generator": _generated}
every_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


def _firsts(items):
    return [np.asarray(x).tolist() for x, _ in items]


@every_source
def test_without_stages_items_come_in_order_with_all_their_columns(source):
    assert [(int(x), int(y)) for x, y in source(3)] == [(0, 0), (1, 10), (2, 20)]


@every_source
def test_batches_hold_the_rest_unless_it_is_dropped(source):
    assert _firsts(source(5).batch(2)) == [[0, 1], [2, 3], [4]]
    assert _firsts(source(5).batch(2, drop_remainder=True)) == [[0, 1], [2, 3]]
    assert len(source(5).batch(2)) == 3
    assert len(source(5).batch(2, drop_remainder=True)) == 2


@every_source
def test_a_batch_larger_than_the_data_is_one_small_batch_or_none(source):
    assert _firsts(source(3).batch(8)) == [[0, 1, 2]]
    assert _firsts(source(3).batch(8, drop_remainder=True)) == []


@every_source
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**40), epoch=st.integers(0, 1000), count=st.integers(1, 40), buffer=st.integers(1, 50))
def test_a_shuffled_epoch_is_a_permutation_that_depends_on_seed_and_epoch_alone(source, seed, epoch, count, buffer):
    dataset = source(count).shuffle(seed, buffer=buffer)
    first = _firsts(dataset.epoch(epoch))
    assert sorted(first) == list(range(count))
    assert first == _firsts(dataset.epoch(epoch))


@every_source
def test_epochs_and_seeds_differ_in_their_order(source):
    orders = {tuple(_firsts(source(30).shuffle(seed).epoch(n))) for seed in (0, 1) for n in (0, 1)}
    assert len(orders) == 4


@every_source
@settings(max_examples=25, deadline=None)
@given(start=st.integers(0, 12), size=st.integers(1, 4))
def test_an_epoch_from_its_middle_is_the_rest_of_the_whole(source, start, size):
    dataset = source(10).shuffle(3, buffer=4).batch(size).map(lambda x, y: (x + 1, y)).prefetch(2)
    assert _firsts(dataset.epoch(5, start=start)) == _firsts(dataset.epoch(5))[start:]


@every_source
def test_map_sees_items_before_batch_and_batches_after_it(source):
    assert _firsts(source(4).map(lambda x, y: (x * 2, y)).batch(2)) == [[0, 2], [4, 6]]
    assert _firsts(source(4).batch(2).map(lambda x, y: (x[::-1], y))) == [[1, 0], [3, 2]]
    assert [x.tolist() for (x,) in source(2).map(lambda x, y: x + y)] == [0, 11]


def test_shuffling_after_batching_keeps_the_batches_together():
    batches = _firsts(_generated(6).batch(2).shuffle(1))
    assert sorted(batches) == [[0, 1], [2, 3], [4, 5]]


def test_batches_of_arrays_are_copies_and_columns_keep_their_shape_and_dtype():
    images = np.zeros((5, 1, 2, 2), np.float32)
    x, _ = next(iter(ArrayDataset(images, np.arange(5)).batch(3)))
    x += 1.0
    assert x.shape == (3, 1, 2, 2)
    assert x.dtype == np.float32
    assert not images.any()


def test_a_generator_gets_the_number_of_its_epoch():
    dataset = GeneratorDataset(lambda epoch: [np.array(epoch)])
    assert [[int(x) for (x,) in dataset.epoch(n)] for n in (0, 7)] == [[0], [7]]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ArrayDataset(np.arange(3), np.arange(4)), ValueError, r"arrays of equal length, got \[3, 4\]"),
        (lambda: ArrayDataset(np.zeros((0, 2))), ValueError, "at least one item, got arrays of length 0"),
        (ArrayDataset, ValueError, "expects one array or more"),
        (lambda: ArrayDataset(3.0), ValueError, "each with an axis that counts the items"),
        (lambda: _arrays(3).batch(0), ValueError, "size of 1 item or more, got 0"),
        (lambda: _arrays(3).shuffle(-1), ValueError, "seed of 0 or more, got -1"),
        (lambda: _arrays(3).shuffle(0, buffer=0), ValueError, "buffer of 1 item or more, got 0"),
        (lambda: _arrays(3).prefetch(0), ValueError, "count of 1 item or more, got 0"),
        (lambda: GeneratorDataset(iter([1])), TypeError, "pass the generator function itself, not its result"),
        (lambda: len(GeneratorDataset(lambda epoch: [])), TypeError, "pass length= when you make it"),
    ],
)
def test_data_that_makes_no_sense_is_refused_in_words(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_items_of_different_shapes_cannot_be_batched():
    dataset = GeneratorDataset(lambda epoch: [np.zeros(2), np.zeros(3)]).batch(2)
    with pytest.raises(ValueError, match=r"one shape in column 0, got \[\(2,\), \(3,\)\]; use padded_batch"):
        next(iter(dataset))
