"""Exact bounds of a probability: against the binomial tail, and at the ends."""

import pytest
from mindscope.armour import InvalidInput
from mindscope.armour.binomial_bounds import proportion_interval
from scipy.stats import binom


@pytest.mark.parametrize(("successes", "trials"), [(3, 10), (1, 300), (150, 300)])
def test_the_ends_leave_half_of_the_error_in_each_tail(successes, trials):
    low, high = proportion_interval(successes, trials, 0.9)
    assert binom.sf(successes - 1, trials, low) == pytest.approx(0.05)
    assert binom.cdf(successes, trials, high) == pytest.approx(0.05)


def test_no_success_leaves_an_upper_end_and_no_failure_a_lower_one():
    assert proportion_interval(0, 10) == (0.0, pytest.approx(1 - 0.025**0.1))
    assert proportion_interval(10, 10) == (pytest.approx(0.025**0.1), 1.0)


def test_counts_and_confidence_are_checked():
    with pytest.raises(InvalidInput, match="successes expects 0 to trials"):
        proportion_interval(3, 2)
    with pytest.raises(InvalidInput, match="confidence expects a share between 0 and 1"):
        proportion_interval(1, 2, 95)
