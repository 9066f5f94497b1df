"""What a loss is given is told from a few rows, in every precision."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.probe.facts.loss_facts import domain_of

DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 300), st.floats(0.01, 20.0), st.sampled_from(DTYPES))
def test_probabilities_and_their_logarithms_are_told_from_logits(seed, columns, scale, dtype):
    x = np.random.default_rng(seed).normal(0.0, scale, (8, columns))
    assert domain_of(softmax(x).astype(dtype)) == "probabilities"
    log_p = np.log(softmax(x) + 1e-300).astype(dtype)
    assert domain_of(log_p) in ("log_probabilities", "non_finite")
    assert domain_of(x.astype(np.float32)) in ("logits", "unit_interval")


@pytest.mark.parametrize(
    ("values", "domain"),
    [
        (np.zeros((0, 3)), "empty"),
        (np.full((4, 3), 7.0), "constant"),
        (np.array([[0.2, np.nan]]), "non_finite"),
        (np.array([[0.2, np.inf]]), "non_finite"),
        (np.array([[0.0, -np.inf]]), "log_probabilities"),
        (np.array([[0.5], [0.25]]), "unit_interval"),
        (np.array([[1.0], [1.0]]), "constant"),
        (np.array([[0.2, 0.9], [0.3, 0.1]]), "unit_interval"),
        (np.array([[0.5, 0.5], [0.5, 0.6]]), "unit_interval"),
        (np.array([[-1.0, 2.0]]), "logits"),
    ],
)
def test_edges_have_a_name_of_their_own(values, domain):
    assert domain_of(values) == domain
