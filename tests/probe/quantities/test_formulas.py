"""The formulas of the quantities against closed forms and slow independent versions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from mindscope.probe.collectors.direction_collector import agreement, cosine
from mindscope.probe.collectors.parameter_collectors import signal_to_noise
from mindscope.probe.collectors.spectrum_collector import power_iteration
from mindscope.probe.quantities.attention_statistics import ATTENTION, attention_statistics, logits_of, sample_of
from mindscope.probe.quantities.noise_scale import MicroBatches, NoiseScale
from mindscope.probe.quantities.router_statistics import ROUTER, router_statistics


def attention(logits):
    return dict(zip(ATTENTION, attention_statistics(np.asarray(logits)), strict=True))


@pytest.mark.parametrize("keys", [2, 7, 100])
def test_uniform_attention_has_the_entropy_log_n(keys):
    found = attention(np.full((3, 4, keys), 1.5))
    assert found["entropy"] == pytest.approx(math.log(keys))
    assert found["entropy_min"] == pytest.approx(math.log(keys))
    assert found["relative_entropy"] == pytest.approx(1.0)
    assert found["max_logit"] == 1.5
    assert found["size"] == 12


def test_hidden_keys_do_not_count_and_queries_that_see_nothing_are_left_out():
    logits = np.zeros((1, 3, 8))
    logits[0, 0, 2:] = -np.inf
    logits[0, 1] = -np.inf
    logits[0, 2, 1:] = -np.inf
    found = attention(logits)
    assert found["entropy"] == pytest.approx(math.log(2) / 2)
    assert found["relative_entropy"] == pytest.approx(1.0)  # of the only query that had a choice
    assert found["size"] == 2
    assert math.isnan(attention(np.full((1, 2, 2), -np.inf))["entropy"])
    assert attention(np.empty((0, 0, 0)))["size"] == 0


def test_a_head_that_has_collapsed_shows_in_the_smallest_entropy():
    logits = np.zeros((2, 4, 16))
    logits[1, :, 3] = 80.0
    found = attention(logits)
    assert found["entropy_min"] == pytest.approx(0.0, abs=1e-12)
    assert found["entropy"] == pytest.approx(math.log(16) / 2)
    assert found["max_logit"] == 80.0


def test_a_logit_that_is_nan_is_not_taken_for_a_number():
    logits = np.zeros((1, 2, 4))
    logits[0, 1, 2] = np.nan
    assert math.isnan(attention(logits)["entropy"])
    assert math.isnan(attention(logits)["max_logit"])


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float64, st.tuples(*[st.integers(1, 6)] * 3), elements=st.floats(-30, 30)))
def test_entropy_agrees_with_the_definition(logits):
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    entropy = -(weights * np.log(weights)).sum(-1)
    found = attention(logits)
    assert found["entropy"] == pytest.approx(entropy.mean(), abs=1e-9)
    assert found["entropy_min"] == pytest.approx(entropy.mean(1).min(), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 3), st.sampled_from([1, 2, 4]), st.booleans(), st.booleans())
def test_the_sampled_logits_are_rows_of_the_whole_product(seed, batch, groups, is_causal, has_mask):
    rng = np.random.default_rng(seed)
    heads, queries, keys, width = 4, 5, 7, 3
    q, k = rng.normal(size=(batch, heads, queries, width)), rng.normal(size=(batch, groups, keys, width))
    mask = rng.random((batch, 1, queries, keys)) > 0.3 if has_mask else None
    whole = np.einsum("bhqd,bhkd->bhqk", q, np.repeat(k, heads // groups, axis=1)) / math.sqrt(width)
    if is_causal:
        whole[..., ~np.tri(queries, keys, keys - queries, dtype=bool)] = -np.inf
    if mask is not None:
        whole = np.where(mask, whole, -np.inf)
    turn = int(rng.integers(9))
    last_seen = keys - queries if is_causal else None
    take = lambda array, index: array[index]  # noqa: E731
    found = logits_of(q, k, mask, scale=None, last_seen=last_seen, take=take, turn=turn)
    np.testing.assert_allclose(found, whole[turn % batch], rtol=1e-12)
    np.testing.assert_array_equal(
        sample_of(whole, scale=1.0, last_seen=None, take=take, turn=turn), whole[turn % batch]
    )


def test_of_many_heads_and_queries_sixteen_each_are_read():
    q = np.zeros((2, 40, 50, 4))
    take = lambda array, index: array[index]  # noqa: E731
    assert logits_of(q, q, None, scale=1.0, last_seen=None, take=take, turn=0).shape == (16, 16, 50)


def router(scores, holds="logits", **options):
    numbers, experts = router_statistics(np.asarray(scores), holds, **options)
    return dict(zip(ROUTER, numbers, strict=True)), experts


def test_a_router_that_spreads_evenly_and_one_that_has_collapsed():
    even, shares = router(np.eye(4)[np.arange(12) % 4] * 5.0, top_k=1)
    assert even["load_entropy"] == pytest.approx(1.0)
    assert even["max_load"] == even["min_load"] == 1.0
    assert even["unused"] == 0
    np.testing.assert_allclose(shares[:, 0], 0.25)
    np.testing.assert_allclose(shares[:, 1].sum(), 1.0)
    one, shares = router(np.tile([9.0, 0.0, 0.0, 0.0], (12, 1)), top_k=1, capacity_factor=1.25)
    assert one["max_load"] == 4.0
    assert one["unused"] == 3
    assert one["dropped"] == pytest.approx((12 - 4) / 12)  # of 12 tokens an expert takes ceil(1.25 * 3)
    assert one["load_entropy"] == 0.0


def test_uniform_belief_has_the_entropy_log_n_and_indifferent_forms_agree():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 10, 6))
    beliefs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    chosen = np.argsort(-logits, -1)[..., :2]
    by_logits, shares = router(logits, top_k=2)
    by_beliefs, _ = router(beliefs, "probabilities", top_k=2)
    by_choice, chosen_shares = router(chosen, "experts", top_k=2, experts=6)
    assert by_logits == pytest.approx(by_beliefs)
    assert by_choice["load_entropy"] == pytest.approx(by_logits["load_entropy"])
    assert math.isnan(by_choice["entropy"])
    np.testing.assert_allclose(chosen_shares[:, 0], shares[:, 0])
    assert router(np.zeros((5, 6)), top_k=1)[0]["entropy"] == pytest.approx(math.log(6))


def test_what_a_router_cannot_mean_is_an_error_and_no_tokens_are_no_numbers():
    with pytest.raises(ValueError, match="top_k must be from 1 to 3"):
        router(np.zeros((2, 3)), top_k=4)
    with pytest.raises(ValueError, match="set `experts`"):
        router(np.zeros((2, 1)), "experts", top_k=1)
    assert router(np.zeros((0, 3)), top_k=1)[0]["size"] == 0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 9), st.integers(1, 9))
def test_power_iteration_rises_to_the_largest_singular_value_and_never_above(seed, rows, columns):
    rng = np.random.default_rng(seed)
    matrix, vector = rng.normal(size=(rows, columns)), rng.normal(size=columns)
    exact = np.linalg.svd(matrix, compute_uv=False)[0]
    before = 0.0
    for _ in range(400):
        found, vector = power_iteration(matrix, vector, 1)
        assert before * (1 - 1e-12) <= found <= exact * (1 + 1e-12)
        before = found
    assert found == pytest.approx(exact, rel=1e-2)


def test_a_known_matrix_has_its_singular_value():
    rng = np.random.default_rng(3)
    left, _ = np.linalg.qr(rng.normal(size=(20, 20)))
    right, _ = np.linalg.qr(rng.normal(size=(30, 20)))
    matrix = left @ np.diag(np.r_[7.0, np.full(19, 2.0)]) @ right.T
    assert power_iteration(matrix, rng.normal(size=30), 12)[0] == pytest.approx(7.0, rel=1e-6)
    assert power_iteration(np.zeros((3, 4)), np.ones(4), 3)[0] == 0.0


def test_cosines_and_agreements():
    one = np.array([1.0, 2.0, 0.0, -1.0])
    assert cosine(one, 3.0 * one) == pytest.approx(1.0)
    assert cosine(one, -one) == pytest.approx(-1.0)
    assert cosine(one, np.array([2.0, -1.0, 5.0, 0.0])) == pytest.approx(0.0)
    assert math.isnan(cosine(one, np.zeros(4)))
    assert math.isnan(cosine(one, None))
    assert agreement(-one, one) == 1.0
    assert agreement(one, np.array([-1.0, 1.0, 9.0, 9.0])) == pytest.approx(2 / 3)
    assert math.isnan(agreement(np.zeros(4), one))


def test_pure_noise_has_a_signal_of_one_over_the_window_and_a_drift_has_its_ratio():
    rng = np.random.default_rng(5)
    noise = rng.normal(size=(16, 40_000))
    assert signal_to_noise(noise) == pytest.approx(1 / 16 * 15 / 13, rel=0.05)  # mean of 1/chi-squared brings 15/13
    assert signal_to_noise(noise + 3.0) == pytest.approx((9.0 + 1 / 16) * 15 / 13, rel=0.05)
    assert math.isnan(signal_to_noise(np.ones((4, 3))))


@pytest.mark.parametrize("scaling", [1.0, 0.25])
def test_the_noise_scale_of_known_noise_is_found_however_the_loss_is_scaled(scaling):
    rng = np.random.default_rng(6)
    signal, width, micro = 0.5, 2000, 4  # trace of the noise `width`, squared gradient `width * signal^2`
    scale = NoiseScale(decay=0.99)
    for _ in range(300):
        parts = scaling * (signal + rng.normal(size=(micro, width)))
        found = scale.add((parts**2).sum(1).tolist(), float((parts.sum(0) ** 2).sum()))
    assert found == pytest.approx(1.0 / signal**2, rel=0.05)
    with pytest.raises(ValueError, match="two micro-batches"):
        scale.add([1.0], 1.0)


def test_the_square_of_a_sum_grows_by_what_each_part_adds():
    rng = np.random.default_rng(7)
    held, batches = np.zeros(50), MicroBatches()
    for number in range(3):
        part = rng.normal(size=50)
        batches.add(number, part @ part, part @ part + 2 * part @ held)
        held += part
    assert batches.square_of_sum == pytest.approx(held @ held)
    assert len(batches.squares) == 3
