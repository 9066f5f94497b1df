"""Fewer items, more items and several datasets together: lists as the slow version, and resumption anywhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.framework.data import ArrayDataset, GeneratorDataset, NumpySlicesDataset


def numbers(count=7, offset=0):
    return ArrayDataset(np.arange(offset, offset + count))


def stream(count=7, offset=0):
    return GeneratorDataset(lambda epoch: (np.asarray(n) for n in range(offset, offset + count)))


def values(dataset, number=0, start=0):
    return [tuple(np.asarray(column).tolist() for column in item) for item in dataset.epoch(number, start=start)]


STAGES = {
    "take": (lambda d: d.take(4), lambda x: x[:4]),
    "take-all": (lambda d: d.take(99), lambda x: x),
    "skip": (lambda d: d.skip(3), lambda x: x[3:]),
    "shard": (lambda d: d.shard(3, 1), lambda x: x[: len(x) // 3 * 3][1::3]),
    "repeat": (lambda d: d.repeat(3), lambda x: x * 3),
    "filter": (lambda d: d.filter(lambda n: n % 2 == 0), lambda x: [n for n in x if n[0] % 2 == 0]),
    "concat": (lambda d: d + stream(2, 50), lambda x: [*x, (50,), (51,)]),
    "zip": (lambda d: d.zip(numbers(5, 20)), lambda x: [(*a, 20 + n) for n, a in enumerate(x[:5])]),
    "map": (lambda d: d.map(lambda n: n * n), lambda x: [(a * a,) for (a,) in x]),
    "batch": (lambda d: d.batch(3), lambda x: [([a for (a,) in x[i : i + 3]],) for i in range(0, len(x), 3)]),
    "skip-take-batch": (
        lambda d: d.skip(1).take(5).batch(2, drop_remainder=True),
        lambda x: [([a for (a,) in x[1:6][i : i + 2]],) for i in (0, 2)],
    ),
}


@pytest.mark.parametrize("source", [numbers, stream])
@pytest.mark.parametrize("name", STAGES)
def test_a_stage_does_to_items_what_it_does_to_a_list_from_any_start(name, source):
    make, of_list = STAGES[name]
    expected = of_list([(n,) for n in range(7)])
    for start in range(len(expected) + 1):
        assert values(make(source()), start=start) == expected[start:]


@pytest.mark.parametrize("name", [name for name in STAGES if name not in ("filter", "concat")])
def test_a_stage_knows_its_length_where_its_source_does(name):
    dataset = STAGES[name][0](numbers())
    assert len(dataset) == dataset.get_dataset_size() == len(values(dataset))


def test_lengths_that_cannot_be_known_are_refused_in_words():
    with pytest.raises(TypeError, match="a filtered dataset does not know its length"):
        len(numbers().filter(bool))
    with pytest.raises(TypeError, match="does not know its length; pass length="):
        len(stream())


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 3), st.integers(0, 9))
def test_shards_of_a_shuffled_epoch_share_nothing_and_leave_at_most_a_few_out(count, shards, epoch, seed):
    parts = [values(numbers(count).shuffle(seed).shard(shards, k), epoch) for k in range(shards)]
    together = [n for part in parts for (n,) in part]
    assert len(set(together)) == len(together)
    assert {len(part) for part in parts} == {count // shards}
    assert set(together) <= set(range(count))


def test_repeated_epochs_are_shuffled_anew():
    dataset = numbers().shuffle(3).repeat(2)
    first, second = values(dataset, 0), values(dataset, 1)
    assert [first[:7], first[7:]] == [values(numbers().shuffle(3), 0), values(numbers().shuffle(3), 1)]
    assert second[:7] == values(numbers().shuffle(3), 2)


def test_padded_batches_are_as_long_as_their_longest_item():
    rows = [np.arange(n, dtype=np.int32) for n in (1, 3, 2)]
    dataset = GeneratorDataset(lambda epoch: [(row, np.float32(len(row))) for row in rows], length=3)
    (x, n), (y, m) = dataset.padded_batch(2, values=(-1, 0), multiple=2).epoch(0)
    np.testing.assert_array_equal(x, [[0, -1, -1, -1], [0, 1, 2, -1]])
    np.testing.assert_array_equal(y, [[0, 1]])
    assert (x.dtype, n.tolist(), m.tolist()) == (np.int32, [1.0, 3.0], [2.0])
    assert len(dataset.padded_batch(2)) == 2
    assert len(list(dataset.padded_batch(2, drop_remainder=True).epoch(0))) == 1
    assert values(dataset.padded_batch(2), start=1) == values(dataset.padded_batch(2))[1:]


def test_an_object_with_positions_is_shuffled_without_being_read():
    class Source:
        reads = 0

        def __len__(self):
            return 5

        def __getitem__(self, position):
            Source.reads += 1
            return np.full(2, position), np.asarray(position)

    dataset = GeneratorDataset(Source()).shuffle(1).batch(2)
    iterator = dataset.epoch(0, start=1)
    x, y = next(iterator)
    assert Source.reads == 2
    np.testing.assert_array_equal(x[:, 0], y)
    assert sorted(int(n) for _, y in dataset.epoch(0) for n in y) == list(range(5))


def test_columns_have_names_when_asked_for():
    dataset = NumpySlicesDataset({"x": np.arange(4), "y": np.arange(4) * 2})
    found = list(dataset.create_dict_iterator(dataset.column_names, num_epochs=2))
    assert [int(item["y"]) for item in found] == [0, 2, 4, 6] * 2
    assert NumpySlicesDataset(np.arange(3)).column_names == ("column_0",)
    assert NumpySlicesDataset((np.arange(3), np.arange(3)), ["a", "b"]).column_names == ("a", "b")
    with pytest.raises(ValueError, match="a name for each of 1 columns, got"):
        NumpySlicesDataset(np.arange(3), ["a", "b"])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: numbers().take(-1), "take expects a count of 0 items or more, got -1"),
        (lambda: numbers().skip(-1), "skip expects a count of 0 items or more, got -1"),
        (lambda: numbers().shard(2, 2), "got 2 of 2"),
        (lambda: numbers().repeat(0), "repeat expects a count of 1 or more, got 0"),
        (lambda: numbers().padded_batch(0), "a size of 1 item or more, got 0"),
        (lambda: numbers().padded_batch(2, multiple=0), "multiples of 1 or more, got 0"),
        (lambda: list(numbers().padded_batch(2, values=(1, 2)).epoch(0)), "a value for each of 1 columns, got 2"),
        (
            lambda: list(GeneratorDataset(lambda e: [np.zeros(2), np.zeros((2, 2))]).padded_batch(2).epoch(0)),
            r"equally many axes in a column, got \[1, 2\]",
        ),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()
