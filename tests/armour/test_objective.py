import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from mindscope.armour import Misclassification, Targeted
from mindscope.armour.objective import cross_entropy


@given(seed=st.integers(0, 1000), classes=st.integers(2, 12))
def test_the_direction_is_that_of_the_cross_entropy_gradient(seed, classes):
    generator = np.random.default_rng(seed)
    logits, labels = generator.standard_normal((5, classes)), generator.integers(0, classes, 5)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    gradient = shares - np.eye(classes)[labels]
    ours = cross_entropy(logits, Misclassification(labels))
    rest = 1 - shares[np.arange(5), labels][:, None]
    np.testing.assert_allclose(ours * rest, gradient, atol=1e-12)
    np.testing.assert_allclose(cross_entropy(logits, Targeted(labels)), -ours)


def test_logits_far_apart_still_have_a_direction():
    logits = np.array([[1e5, 0.0, -10.0]], np.float32)
    direction = cross_entropy(logits, Misclassification(np.array([0])))
    np.testing.assert_allclose(direction, [[-1, 1, np.exp(-10)]], rtol=1e-3)
    assert direction.dtype == np.float32
