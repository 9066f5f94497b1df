"""What the shares of ranks in a reduction say."""

import pytest
from mindscope.insight.indicators.replicas import (
    alone,
    common_scale,
    dropped,
    is_corrupted,
    is_unreduced,
    misfits,
    repeated,
    shares,
    skipped,
)
from mindscope.storage import Event


def reduction(*weights, residual=1e-6):
    return Event("rank_reduction", 3, data={"weights": list(weights), "residual": residual, "ranks": len(weights)})


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_mean_has_the_scale_one_and_a_sum_that_of_the_ranks(ranks):
    assert common_scale(reduction(*[1 / ranks] * ranks)) == pytest.approx(1)
    assert common_scale(reduction(*[1.0] * ranks)) == pytest.approx(ranks)
    assert dropped(reduction(*[1 / ranks] * ranks)) == []


@pytest.mark.parametrize(
    ("weights", "missing"),
    [((0.5, 0.0), [1]), ((0.0, 0.5), [0]), ((1 / 3, 0.0, 1 / 3), [1]), ((0.5, 0.5, 0.0), [2]), ((0.6, 0.3, 0.0), [])],
)
def test_a_rank_without_a_share_has_dropped_out_where_the_others_have_equal_ones(weights, missing):
    assert dropped(reduction(*weights)) == missing


def test_a_gradient_that_is_rank_zeros_own_was_not_reduced_and_nobody_dropped_out():
    assert is_unreduced(reduction(1.0, 0.0, 0.0))
    assert dropped(reduction(1.0, 0.0, 0.0)) == []
    assert not is_unreduced(reduction(0.5, 0.0))


def test_shares_that_do_not_fit_are_not_believed():
    assert shares(reduction(1.0, 1.0, residual=0.4)) == []
    assert shares(reduction(1.0, None)) == []
    assert shares(Event("rank_reduction", 0)) == []


def test_wrong_bits_are_told_from_a_missing_reduction_by_how_many_tensors_differ():
    event = Event("rank_checksums", 50, data={"at": 50, "sites": ["a.weight"], "odd": [1]})
    all_of_them = Event("rank_checksums", 50, data={"at": 50, "sites": ["a", "b", "c", "d"], "odd": [1]})
    assert is_corrupted(event, 8)
    assert not is_corrupted(all_of_them, 8)
    assert not is_corrupted(event, 2)


def test_equal_values_gather_their_ranks():
    event = Event("rank_checksums", 0, data={"by_rank": ["a", "b", "a", "c", None, "b", None]})
    assert list(repeated(event)) == [[0, 2], [1, 5]]


def test_equal_values_of_ranks_that_hold_other_parts_of_the_model_do_not():
    event = Event("rank_checksums", 0, data={"by_rank": ["a", "a", "b", "b", "a"], "parts": [0, 1, 0, 1, 0]})
    assert list(repeated(event)) == [[0, 4]]


def test_ranks_that_find_the_same_gradient_count_as_one_that_reduces_nothing():
    data = {"residual": 1e-6, "ranks": 4, "weights": [0.5, 0.5, 0.0, 0.0], "local_classes": [0, 0, 2, 2]}
    assert is_unreduced(Event("rank_reduction", 0, data=data))
    assert not is_unreduced(Event("rank_reduction", 0, data=data | {"weights": [0.25] * 4}))
    assert not is_unreduced(Event("rank_reduction", 0, data=data | {"weights": [0.25] * 4, "local_classes": [0] * 4}))


def test_members_name_the_ranks_of_a_group():
    data = {"residual": 1e-6, "ranks": 3, "weights": [0.5, 0.0, 0.5], "members": [1, 4, 6]}
    assert dropped(Event("rank_reduction", 0, data=data)) == [4]
    elsewhere = {"weights": [0.5, 0.5], "members": [2, 5], "weights_elsewhere": [None, [0.0, 1.0]], "residual": 1e-6}
    assert alone(Event("rank_reduction", 0, data=elsewhere)) == [5]


@pytest.mark.parametrize(
    ("residuals", "found"),
    [([1e-6, 0.3], [5]), ([0.2, 0.3], []), ([1e-2, 2e-2], []), ([1e-6, 1e-6], []), ([0.4, 1e-6], [2])],
)
def test_a_gradient_that_does_not_follow_is_the_one_whose_residual_stands_out(residuals, found):
    data = {"weights": [0.5, 0.5], "members": [2, 5], "residuals": residuals}
    assert misfits(Event("rank_reduction", 0, data=data)) == found


@pytest.mark.parametrize(
    ("forwards", "found"), [([20, 21], [1]), ([20, 20], []), ([None, 20, 21, 20], [2]), ([21, 21, 20], [0, 1])]
)
def test_a_rank_with_more_forwards_has_skipped_a_step(forwards, found):
    assert skipped(Event("rank_checksums", 0, data={"forwards": forwards})) == found
