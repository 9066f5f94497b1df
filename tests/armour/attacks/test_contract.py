"""What every attack promises, whatever its paper, tried through the engine and through PyTorch with the same code."""

from dataclasses import fields

import numpy as np
import pytest
from mindscope.armour import ATTACKS, DISTANCES, wrap
from mindscope.armour.array_api import to_numpy

from tests.armour.attacks.cases import BLIND, WEAK, each_attack, each_attack_and_framework, light, some_attacks
from tests.armour.frameworks import MAKE, inputs, logits

BUDGET = {"linf": 0.08, "l2": 0.25, "l1": 0.8, "l0": 3.0}
RESTARTING = [name for name, entry in sorted(ATTACKS.items()) if "restarts" in {f.name for f in fields(entry.make)}]


def data(samples, dtype=np.float32):
    """Inputs, a few of which touch the box, and the classes that the network gives them."""
    x = np.clip(inputs(samples).astype(dtype) * 1.2 - 0.1, 0, 1)
    return x, logits(x).argmax(axis=1)


@each_attack_and_framework
def test_budget_box_dtype_and_verdict_are_kept(name, norm, framework):
    model = wrap(MAKE[framework]())
    x, y = data(24)
    y[::6] = (y[::6] + 1) % 3  # wrong from the start
    result = light(name, norm)(model, x, y, epsilons=[0.0, BUDGET[norm]])
    examples = to_numpy(result.adversarials)
    assert str(result.adversarials.dtype).endswith("float32")
    assert type(result.adversarials) is type(model.native(x))
    assert 0 <= examples.min() <= examples.max() <= 1
    for budget, found, told in zip(result.epsilons, examples, result.distances, strict=True):
        measured = DISTANCES[norm].measure(x, found)
        np.testing.assert_allclose(told, measured, rtol=1e-12)  # sums in another order
        assert (measured <= budget).all()
    np.testing.assert_array_equal(result.already, logits(x).argmax(axis=1) != y)
    np.testing.assert_array_equal(examples[:, result.already], np.stack([x[result.already]] * 2))
    fooled = to_numpy(model.logits(result.adversarials[1])).argmax(axis=1) != y
    np.testing.assert_array_equal(result.success[1], fooled & ~result.already)
    assert not result.success[0].any()
    assert (result.queries[1] > 0).tolist() == (~result.already).tolist()


@each_attack
def test_engine_and_torch_give_the_same_examples(name, norm):
    x, y = data(16, np.float64)
    results = [
        light(name, norm)(wrap(make(np.float64)), x, y, epsilons=[BUDGET[norm]], seed=5) for make in MAKE.values()
    ]
    first = results[0]
    for other in results[1:]:
        apart = np.abs(to_numpy(other.adversarials) - first.adversarials).reshape(1, 16, -1).max(axis=2)
        np.testing.assert_array_equal(other.success, first.success)
        if ATTACKS[name].make.finds_minimum:  # it walks along the boundary, where a rounding may decide the side
            assert (apart < 1e-6).mean() >= 0.75
            np.testing.assert_allclose(other.distances, first.distances, rtol=0.1)
        else:
            assert apart.max() < 1e-6
            np.testing.assert_array_equal(other.queries, first.queries)


@some_attacks
def test_the_seed_decides_whatever_the_batch_size(name, norm):
    model = wrap(MAKE["engine"](np.float64))
    x, y = data(12, np.float64)
    whole, parts = (
        light(name, norm)(model, x, y, epsilons=[BUDGET[norm]], seed=2, batch_size=size) for size in (12, 5)
    )
    np.testing.assert_allclose(parts.adversarials, whole.adversarials, atol=1e-9)
    np.testing.assert_array_equal(parts.success, whole.success)


@each_attack_and_framework
def test_targets_are_reached(name, norm, framework):
    model = wrap(MAKE[framework]())
    x, _ = data(16)
    order = logits(x).argsort(axis=1)
    result = light(name, norm)(model, x, order[:, -1], targets=order[:, -2], epsilons=None)
    reached = to_numpy(model.logits(result.adversarials[0])).argmax(axis=1) == order[:, -2]
    np.testing.assert_array_equal(result.success[0], reached)
    assert reached.mean() >= (0.0 if name in BLIND else 0.2 if name in WEAK else 0.8)


@pytest.mark.parametrize("name", RESTARTING)
def test_restarts_never_lose_a_success(name):
    model = wrap(MAKE["engine"]())
    x, y = data(24)
    norm = ATTACKS[name].norms[0]
    once, often = (
        light(name, norm, restarts=count)(model, x, y, epsilons=[BUDGET[norm] / 2]).success[0] for count in (1, 3)
    )
    assert (often >= once).all()
