"""Welch's test and the effect size, against SciPy and by hand."""

from math import inf, nan, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_ind

from benchmarks.mutations import harm
from benchmarks.mutations.harm import welch

RESULTS = st.lists(st.integers(-1000, 1000).map(lambda value: value / 16), min_size=3, max_size=6)


@given(RESULTS, RESULTS)
def test_the_p_value_is_that_of_scipy(original, mutant):
    if len(set(original)) > 1 and len(set(mutant)) > 1:
        expected = ttest_ind(mutant, original, equal_var=False, alternative="greater")
        assert welch(original, mutant)[0] == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)


def test_the_effect_is_the_difference_over_the_pooled_deviation():
    assert welch([1.0, 2.0, 3.0], [3.0, 5.0, 7.0])[1] == pytest.approx(3.0 / sqrt(2.5))


def test_results_without_any_spread_are_compared_as_they_are():
    assert welch([1.0, 1.0], [2.0, 2.0]) == (0.0, inf)
    assert welch([2.0, 2.0], [2.0, 2.0]) == (1.0, 0.0)
    assert welch([2.0, 2.0], [1.0, 1.0]) == (1.0, -inf)


@pytest.mark.parametrize(
    ("mutant", "is_harmful"),
    [((1.0, 1.1, 0.9), False), ((0.2, 0.3, 0.1), False), ((9.0, 9.1, 8.9), True), ((1.0, nan, 1.0), True)],
    ids=["the same", "better", "worse", "failed"],
)
def test_only_a_worse_result_is_harm(mutant, is_harmful):
    assert harm((1.0, 1.1, 0.9), mutant).is_harmful == is_harmful


def test_a_broken_promise_is_harm_although_the_result_is_better():
    found = harm((1.0, 1.1, 0.9), (0.2, 0.3, 0.1), promise="no output depends on a later input")
    assert found.is_harmful
    assert found.reason == "it breaks a promise: no output depends on a later input"


def test_an_original_that_fails_is_no_measure():
    with pytest.raises(ValueError, match="mend the program"):
        harm((1.0, nan), (1.0, 1.0))
