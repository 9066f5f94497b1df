"""Epsilon against published figures, closed forms, a second implementation, and what must always hold."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.armour import InvalidInput
from mindscope.armour.privacy import Phase, PrivacyLedger, epsilon, noise_for
from mindscope.armour.privacy.privacy_accountant import ORDERS, epsilon_of_renyi, sampled_gaussian_renyi

ABADI = Phase(noise_multiplier=1.1, sample_rate=0.01, steps=10_000)
FULL = Phase(noise_multiplier=10.0, sample_rate=1.0, steps=100)


def gaussian_epsilon(mu, delta):
    """The exact epsilon of a Gaussian mechanism of sensitivity / deviation mu (Balle and Wang 2018, theorem 8)."""
    cdf = NormalDist().cdf
    low, high = 0.0, 100.0
    for _ in range(200):
        middle = (low + high) / 2
        spent = cdf(mu / 2 - middle / mu) - math.exp(middle) * cdf(-mu / 2 - middle / mu)
        low, high = (middle, high) if spent > delta else (low, middle)
    return high


def binomial_renyi(q, s, order):
    """The sum of Mironov, Talwar, Zhang 2019, section 3.3, for whole orders."""
    terms = [
        math.log(math.comb(order, k)) + k * math.log(q) + (order - k) * math.log1p(-q) + k * (k - 1) / (2 * s * s)
        for k in range(order + 1)
    ]
    return float(np.logaddexp.reduce(terms)) / (order - 1)


def test_the_published_training_spends_5_63_by_renyi():
    assert epsilon([ABADI], 1e-5) == pytest.approx(5.63, rel=1e-3)


def test_privacy_loss_accounting_agrees_with_published_figures_and_the_exact_gaussian():
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    assert epsilon([ABADI], 1e-5, "pld") == pytest.approx(5.19, rel=0.01)
    assert epsilon([FULL], 1e-5, "pld") == pytest.approx(4.377, rel=0.001)
    assert gaussian_epsilon(1.0, 1e-5) == pytest.approx(4.377, rel=0.001)


def test_renyi_accounting_agrees_with_another_implementation():
    accounting = pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    from dp_accounting import rdp

    whole = [order for order in ORDERS.tolist() if order == int(order)]  # its series between them is not exact
    for q, s in ((0.001, 0.5), (0.02, 0.8), (0.1, 2.0), (0.5, 5.0), (1.0, 3.0)):
        other = rdp.RdpAccountant(whole)
        event = accounting.GaussianDpEvent(s)
        other.compose(event if q == 1 else accounting.PoissonSampledDpEvent(q, event), 500)
        spent = 500 * sampled_gaussian_renyi(q, s, np.array(whole))
        assert epsilon_of_renyi(spent, np.array(whole), 1e-6) == pytest.approx(other.get_epsilon(1e-6), rel=1e-9)


def test_orders_between_whole_ones_are_exact_to_rounding():
    # By mpmath's quadrature with 40 digits; the series of other accountants are up to a quarter too large here.
    for q, s, order, expected in (
        (0.001, 0.5, 4.3, 0.07215641561385605),
        (0.001, 0.5, 2.7, 0.00010418326751148345),
        (0.02, 0.8, 1.1, 0.0007485020049318814),
    ):
        assert sampled_gaussian_renyi(q, s, np.array([order]))[0] == pytest.approx(expected, rel=1e-10)


@settings(deadline=None, max_examples=25)
@given(q=st.floats(1e-5, 0.99), s=st.floats(0.2, 50), order=st.integers(2, 200))
def test_the_quadrature_is_the_binomial_sum_at_whole_orders(q, s, order):
    found = sampled_gaussian_renyi(q, s, np.array([float(order)]))[0]
    expected = binomial_renyi(q, s, order)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)


@settings(deadline=None, max_examples=25)
@given(mu=st.floats(0.05, 3), delta=st.floats(1e-9, 1e-2))
def test_renyi_is_never_below_the_exact_gaussian_and_not_far_above(mu, delta):
    exact = gaussian_epsilon(mu, delta)
    found = epsilon([Phase(1 / mu, 1.0)], delta)
    assert exact - 1e-9 <= found <= 1.25 * exact + 0.15


def test_more_noise_fewer_steps_and_fewer_samples_spend_less():
    base = epsilon([Phase(1.0, 0.02, 200)], 1e-5)
    for less in (Phase(1.5, 0.02, 200), Phase(1.0, 0.01, 200), Phase(1.0, 0.02, 100)):
        assert epsilon([less], 1e-5) < base
    assert epsilon([Phase(1.0, 0.02, 200)], 1e-3) < base


def test_a_ledger_joins_equal_steps_and_phases_compose_in_any_order():
    ledger = PrivacyLedger()
    for phase in (Phase(1.0, 0.1), Phase(1.0, 0.1, 3), Phase(2.0, 0.1, 5), Phase(1.0, 0.1, 0)):
        ledger.spend(phase)
    assert ledger.phases[:2] == (Phase(1.0, 0.1, 4), Phase(2.0, 0.1, 5))
    assert ledger.epsilon(1e-5) == pytest.approx(epsilon([Phase(2.0, 0.1, 5), Phase(1.0, 0.1, 4)], 1e-5), rel=1e-12)
    assert PrivacyLedger().epsilon(1e-5) == 0.0


def test_calibrated_noise_keeps_the_promise_and_wastes_nothing():
    noise = noise_for(2.0, 1e-5, 0.02, 300)
    assert epsilon([Phase(noise, 0.02, 300)], 1e-5) <= 2.0 < epsilon([Phase(noise * 0.997, 0.02, 300)], 1e-5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Phase(0.0, 0.1), "noise_multiplier expects a finite number above 0, got 0"),
        (lambda: Phase(1.0, 1.5), r"sample_rate expects a probability above 0 and up to 1, got 1\.5"),
        (lambda: Phase(1.0, 0.5, -1), "steps expects an integer of 0 or more, got -1"),
        (lambda: epsilon([], 0.0), "delta expects a number between 0 and 1"),
        (lambda: epsilon([], 0.1, "moments"), "accountant expects one of rdp, pld, got 'moments'"),
        (lambda: noise_for(-1.0, 1e-5, 0.1, 3), "target epsilon expects"),
    ],
)
def test_what_cannot_be_accounted_is_named(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
