"""Spreads over ranks: what they say is what the values say, and parts make the same as the whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as draw
from mindscope.storage.ranks.spread import (
    POINTS,
    merge_spreads,
    outlying_among,
    outlying_ranks,
    spread_of,
)

RANDOM = np.random.default_rng(7)


def slow(values, ranks):
    """The exact parts of the spread of one cell, the slow way."""
    finite = [(value, rank) for value, rank in zip(values, ranks, strict=True) if np.isfinite(value)]
    strange = [rank for value, rank in zip(values, ranks, strict=True) if not np.isfinite(value)]
    numbers = [value for value, _ in finite]
    return (
        len(finite),
        len(strange),
        min(numbers, default=np.nan),
        max(numbers, default=np.nan),
        min(finite, key=lambda one: one[0], default=(0, -1))[1],
        max(finite, key=lambda one: one[0], default=(0, -1))[1],
        strange[0] if strange else -1,
        np.mean(numbers) if numbers else np.nan,
    )


def parts_of(spread, cell):
    return tuple(
        array[cell]
        for array in (
            spread.count,
            spread.non_finite,
            spread.low,
            spread.high,
            spread.low_rank,
            spread.high_rank,
            spread.strange_rank,
            spread.mean,
        )
    )


CELLS = draw.lists(
    draw.lists(draw.sampled_from([0.0, 1.0, -2.5, 3.0, 7.25, np.nan, np.inf, -np.inf]), min_size=9, max_size=9),
    min_size=1,
    max_size=4,
)


@given(CELLS)
def test_a_spread_says_what_the_values_say(rows):
    ranks = np.arange(9) * 3
    spread = spread_of(np.array(rows), ranks)
    for cell, values in enumerate(rows):
        np.testing.assert_equal(parts_of(spread, cell), slow(values, ranks))


@given(CELLS, draw.lists(draw.integers(0, 2), min_size=9, max_size=9))
def test_parts_make_the_same_as_the_whole(rows, owners):
    values, ranks, owner = np.array(rows), np.arange(9), np.array(owners)
    parts = [spread_of(values[:, owner == part], ranks[owner == part]) for part in range(3) if (owner == part).any()]
    merged, whole = merge_spreads(parts), spread_of(values, ranks)
    for cell in range(len(rows)):
        mine, theirs = parts_of(merged, cell), parts_of(whole, cell)
        np.testing.assert_equal(mine[:4], theirs[:4])  # of equal extremes any part's rank may come first
        np.testing.assert_allclose(mine[7], theirs[7])


def test_absent_is_neither_counted_nor_the_smallest():
    values = np.array([[5.0, -1.0, 3.0]])
    spread = spread_of(values, np.arange(3), np.array([[True, False, True]]))
    assert parts_of(spread, 0) == (2, 0, 3.0, 5.0, 2, 0, -1, 4.0)
    nobody = spread_of(values, np.arange(3), np.zeros((1, 3), np.bool_))
    np.testing.assert_equal(parts_of(nobody, 0), (0, 0, np.nan, np.nan, -1, -1, -1, np.nan))
    assert np.isnan(nobody.points).all()


@pytest.mark.parametrize("sizes", [(64,) * 16, (1, 2, 5, 100, 900, 16)], ids=["alike", "unlike"])
@pytest.mark.parametrize("levels", [1, 2])
def test_merged_quantiles_keep_their_bound(sizes, levels):
    """A tree of n levels is off by at most (n + 1) / (2 * POINTS) of the ranks."""
    values = np.exp(RANDOM.normal(size=(5, sum(sizes))))
    ends = np.cumsum(sizes)
    parts = [
        spread_of(values[:, end - size : end], np.arange(end - size, end))
        for size, end in zip(sizes, ends, strict=True)
    ]
    if levels == 2:
        parts = [merge_spreads(parts[:3]), merge_spreads(parts[3:])]
    merged = merge_spreads(parts)
    middles = (np.arange(POINTS) + 0.5) / POINTS
    bound = (levels + 1) / (2 * POINTS) + 1 / values.shape[1]
    for cell in range(5):
        at_most = np.searchsorted(np.sort(values[cell]), merged.points[cell], side="right") / values.shape[1]
        below = np.searchsorted(np.sort(values[cell]), merged.points[cell], side="left") / values.shape[1]
        assert (at_most >= middles - bound).all()
        assert (below <= middles + bound).all()


def test_of_ranks_like_the_others_none_stands_out():
    values = np.exp(RANDOM.normal(scale=0.3, size=(200, 4096)))
    assert outlying_ranks(values, np.arange(4096), spread_of(values, np.arange(4096)), most=16) == ()


def test_who_stands_out_is_named_the_farthest_first_and_no_more_than_asked_for():
    values = RANDOM.normal(5.0, 0.1, size=(4, 512)).astype(np.float32)
    values[2, 100], values[1, 200], values[3, 300] = 9.0, 7.0, np.nan
    spread = spread_of(values, np.arange(512))
    found = outlying_ranks(values, np.arange(512), spread, most=16)
    assert [(one.rank, one.cell) for one in found] == [(300, 3), (100, 2), (200, 1)]
    assert found[1].distance == pytest.approx(np.log(9 / 5) / 0.02, rel=0.2)
    assert [one.rank for one in outlying_ranks(values, np.arange(512), spread, most=2)] == [300, 100]
    parts = [spread_of(values[:, at : at + 64], np.arange(at, at + 64)) for at in range(0, 512, 64)]
    assert [one.rank for one in outlying_among(parts, merge_spreads(parts), most=16)] == [300, 100, 200]


def test_a_rank_that_differs_where_all_agree_stands_out_and_a_count_that_often_differs_does_not():
    values = np.full((2, 512), 3.0)
    values[0, 17] = 3.001
    values[1, ::7] = 4.0
    found = outlying_ranks(values, np.arange(512), spread_of(values, np.arange(512)), most=16)
    assert [(one.rank, one.cell) for one in found] == [(17, 0)]
