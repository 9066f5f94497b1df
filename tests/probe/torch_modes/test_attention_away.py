"""Attention on a device: the same numbers as on the processor, of every form that it has, and nobody waits."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.adapters.torch.torch_quantities import TorchAttention  # noqa: E402  after it is known that torch is there
from mindscope.probe.quantities.attention_statistics import attention_statistics, logits_of, sample_of  # noqa: E402

from tests.probe.torch_modes.test_on_a_device import numbers, same  # noqa: E402

nn = torch.nn


def take(tensor, index):
    return tensor[tuple(one if isinstance(one, int) else torch.from_numpy(one) for one in index)].numpy()


def made(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 2, shape)).float()


FORMS = {
    "of one head": ((7, 4), (9, 4), None, {}),
    "of many heads and queries": ((2, 20, 33, 8), (2, 20, 35, 8), None, {}),
    "causal": ((3, 4, 10, 8), (3, 4, 10, 8), None, {"last_seen": 0}),
    "with its own scale": ((3, 4, 10, 8), (3, 4, 10, 8), None, {"scale": 0.9}),
    "grouped": ((2, 8, 6, 4), (2, 2, 6, 4), None, {}),
    "of keys that are shared": ((2, 3, 6, 4), (1, 1, 6, 4), None, {}),
    "of one key": ((2, 3, 6, 4), (2, 3, 1, 4), None, {}),
    "without keys": ((2, 3, 6, 4), (2, 3, 0, 4), None, {}),
    "under a mask of bools": ((2, 3, 6, 4), (2, 3, 6, 4), made(2, 1, 6, 6, seed=3) > 0, {}),
    "under a mask of one row": ((2, 3, 6, 4), (2, 3, 6, 4), made(6, seed=3) > 0, {}),
    "where nothing may be seen": ((2, 3, 6, 4), (2, 3, 6, 4), torch.zeros(6, 6, dtype=torch.bool), {}),
    "under a mask that is added": ((2, 3, 6, 4), (2, 3, 6, 4), made(6, 6, seed=4), {}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("turn", [0, 5])
def test_every_form_has_the_numbers_of_the_processor(form, turn):
    query, key, mask, options = FORMS[form]
    q, k = made(*query), made(*key, seed=1)
    options = {"scale": None, "last_seen": None, "turn": turn} | options
    found = TorchAttention().attention(q, k, mask, **options)
    expected = attention_statistics(logits_of(q, k, mask, take=take, **options))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9)


def test_logits_that_are_not_finite_are_told_alike():
    scores = made(2, 3, 5, 7)
    scores[0, 1, 2, 3], scores[1, 0, 0, 0], scores[:, 2, :, :4] = float("nan"), float("inf"), float("-inf")
    for turn in range(2):
        options = {"scale": 1.0, "last_seen": 1, "turn": turn}
        expected = attention_statistics(sample_of(scores, take=take, **options))
        np.testing.assert_allclose(TorchAttention().softmax(scores, **options).numpy(), expected, rtol=1e-9)


class SelfAttention(nn.Module):
    """Two heads by torch's function, and a softmax of its own behind it."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = (one.unflatten(-1, (2, 4)).transpose(1, 2) for one in self.mix(x).chunk(3, -1))
        h = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        weights = nn.functional.softmax(h @ h.transpose(-1, -2), dim=-1)
        return (weights @ h).transpose(1, 2).flatten(2)


def trained(watching):
    net = nn.Sequential(SelfAttention(), nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    x, losses = torch.randn(3, 6, 8), []
    with watching(net, optimizer):
        for _ in range(3):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses, net


def test_a_training_with_attention_records_it_without_waiting(alike, forced, brought):
    expected = alike(trained, config={"subjects": {"attention": 1}})
    brought.clear()
    forced()
    found = alike(trained, config={"subjects": {"attention": 1}})
    assert not found.faults()
    assert not brought
    attention = {key: value for key, value in numbers(expected).items() if key[2] == "attention"}
    assert {key[4] for key in attention} == {0, 1}  # two calls a step
    same({key: value for key, value in numbers(found).items() if key[2] == "attention"}, attention)
