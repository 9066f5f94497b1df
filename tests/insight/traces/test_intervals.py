"""Unions and layers of intervals equal a slow count on a grid of integers."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given
from mindscope.insight.traces.intervals import covered, length, merged, outermost

INTERVALS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=12)


def arrays(pairs):
    start = np.array([float(begin) for begin, _ in pairs])
    return start, start + np.array([float(size) for _, size in pairs])


def cells(pairs):
    return {cell for begin, size in pairs for cell in range(begin, begin + size)}


@given(INTERVALS)
def test_a_union_has_the_length_of_its_cells_and_does_not_touch(pairs):
    start, end = merged(*arrays(pairs))
    assert length(*arrays(pairs)) == len(cells(pairs))
    assert (start[1:] > end[:-1]).all()


@given(st.lists(INTERVALS, min_size=1, max_size=4))
def test_layers_cover_what_their_cells_cover(layers):
    times = covered((0.0, 45.0), [arrays(pairs) for pairs in layers])
    expected = np.zeros(1 << len(layers))
    for cell in range(45):
        expected[sum(1 << place for place, pairs in enumerate(layers) if cell in cells(pairs))] += 1
    np.testing.assert_allclose(times, expected)
    assert times.sum() == 45.0


@given(INTERVALS)
def test_outermost_intervals_lie_in_no_other(pairs):
    pairs = sorted(((begin, size + 1) for begin, size in pairs), key=lambda pair: (pair[0], -pair[1]))
    start, end = arrays(pairs)
    found = outermost(np.zeros(len(pairs), np.int64), start, end)
    for place, is_outer in enumerate(found.tolist()):
        inside = any(start[other] <= start[place] and end[place] <= end[other] for other in range(place))
        partly = any(start[place] < end[other] for other in range(place))
        assert is_outer is (not partly) or (partly and not inside and not is_outer)
