"""Interval training makes models that certificates prove robust, and its worst logits are those of `certify`."""

import numpy as np
import pytest
from mindscope.armour import InvalidInput, InvalidModel
from mindscope.armour.certificates import certify
from sklearn.datasets import load_digits

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.armour.defences.interval_training import IntervalTraining, initialize_for_intervals  # noqa: E402

EPSILON = 0.1
torch.set_num_threads(1)


def digits():
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    return (x[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8), y[order]


def network(seed=0):
    torch.manual_seed(seed)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 4, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def test_a_model_trained_by_intervals_is_certified_where_an_ordinary_one_is_not():
    x, y = digits()
    held_x, held_y = x[1400:1500].astype(np.float64), y[1400:1500]
    proven = {}
    for name, share, steps in (("intervals", 0.5, 400), ("ordinary", 1.0, 120)):
        module = network()
        initialize_for_intervals(module)
        optimizer = torch.optim.Adam(module.parameters(), 2e-3)
        training = IntervalTraining(module, optimizer, EPSILON, steps=steps, clean_share=share)
        for number in range(steps):
            rows = np.random.default_rng(number).choice(1400, 100, replace=False)
            step = training.step(x[rows], y[rows])
        proven[name] = certify(module.eval(), held_x, held_y, [0.0, EPSILON], method="ibp").accuracy
        assert set(step.scalars) == {"loss", "robust/epsilon", "robust/certified_accuracy"}
        assert step.epsilon == EPSILON
    assert proven["intervals"][0] > 0.85
    assert proven["intervals"][1] > 0.42
    assert proven["ordinary"][1] < 0.1


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.inner = torch.nn.Conv2d(1, 3, 3, padding=1), torch.nn.Conv2d(3, 3, 3, padding=1)
        self.pool, self.answer = torch.nn.AvgPool2d(2), torch.nn.Linear(48, 4, bias=False)

    def forward(self, x):
        before = torch.relu(self.first(x))
        after = before + self.inner(before).relu()
        return self.answer(torch.flatten(self.pool(after), 1))


@pytest.mark.parametrize("make", [network, Residual], ids=["sequence", "residual"])
def test_worst_logits_are_the_margins_of_the_certificate(make):
    module = make()
    training = IntervalTraining(module, torch.optim.SGD(module.parameters(), 0.1), 0.05, steps=1)
    x, y = digits()
    x, y = x[:5], y[:5] % 4
    worst = training.worst_logits(torch.tensor(x), torch.tensor(y), 0.05).detach().numpy()
    np.testing.assert_allclose(worst[np.arange(5), y], 0, atol=1e-6)
    worst[np.arange(5), y] = -np.inf
    margins = certify(module.eval(), x.astype(np.float64), y, 0.05, method="ibp").margins[0]
    np.testing.assert_allclose(-worst.max(axis=1), margins, rtol=1e-4, atol=1e-5)


def test_the_budget_waits_and_then_grows():
    module = network()
    training = IntervalTraining(module, torch.optim.SGD(module.parameters(), 0.0), 0.2, steps=10, warm_up=0.2, ramp=0.4)
    x, y = digits()
    epsilons = [training.step(x[:4], y[:4]).epsilon for _ in range(10)]
    np.testing.assert_allclose(epsilons, [0, 0, 0, 0.05, 0.1, 0.15, 0.2, 0.2, 0.2, 0.2], atol=1e-12)


def test_intervals_keep_their_width_from_layer_to_layer_at_the_start():
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (torch.nn.Linear(400, 400), torch.nn.ReLU())]
    module = torch.nn.Sequential(*layers, torch.nn.Linear(400, 10))
    initialize_for_intervals(module)
    module.requires_grad_(False)
    low, high = torch.full((1, 400), 0.4), torch.full((1, 400), 0.6)
    for layer in module[:-1]:
        if isinstance(layer, torch.nn.Linear):
            middle, reach = layer((low + high) / 2), (high - low) / 2 @ layer.weight.abs().T
            low, high = middle - reach, middle + reach
            before = float((high - low).mean())
        else:
            low, high = low.relu(), high.relu()
            assert 0.4 < float((high - low).mean()) / before < 0.6  # relu halves what the layer doubled


def test_what_does_not_fit_is_named():
    module = network()
    with pytest.raises(InvalidInput, match=r"warm_up \+ ramp of up to 1, got epsilon=0\.1, steps=5"):
        IntervalTraining(module, torch.optim.SGD(module.parameters(), 0.1), 0.1, steps=5, ramp=1.0)
    for last, message in (
        (torch.nn.Softmax(dim=1), "a module that ends in a Linear, Sequential does not"),
        (
            torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(10, 2)),
            r"no intervals pass through Tanh\(\); interval t",
        ),
    ):
        odd = torch.nn.Sequential(module, last)
        with pytest.raises(InvalidModel, match=message):
            IntervalTraining(odd, torch.optim.SGD(odd.parameters(), 0.1), 0.1, steps=5)
