"""Outputs of modules that are no plain tensor."""

from collections import UserDict, namedtuple
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

nn = torch.nn
Pair = namedtuple("Pair", ["first", "second"])


@dataclass
class Answer:
    logits: torch.Tensor
    beside: object = None


class Wrapping(nn.Module):
    """A layer whose output is put into something."""

    def __init__(self, wrap):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.wrap = wrap

    def forward(self, x):
        return self.wrap(self.layer(x))


def trained(wrap, unwrap):
    def train(watching):
        net = Wrapping(wrap)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        losses = []
        with watching(net, optimizer):
            for _ in range(2):
                optimizer.zero_grad()
                loss = unwrap(net(torch.ones(2, 3))).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses, net

    return train


def sites(seen, subject="activation"):
    blocks = [block for record in seen.records() for block in record.blocks if block.layout.subject == subject]
    return {site for block in blocks for site in block.layout.sites}


KINDS = {
    "a mapping that is no dict": (lambda h: UserDict(z=h), lambda y: y["z"], {""}),
    "a named tuple": (lambda h: Pair(h, h * 2), lambda y: y.second, {"", "[1]"}),
    "a dataclass": (lambda h: Answer(h, {"a": [h * 2, (h * 3,)]}), lambda y: y.logits, {"", "[beside][a][1][0]"}),
    "with nothing beside": (lambda h: [None, 3, "word", h], lambda y: y[3], {""}),
    "far down": (lambda h: {"a": {"b": [({"c": h},)]}}, lambda y: y["a"]["b"][0][0]["c"], {""}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_of_every_nesting_are_recorded_with_their_gradients(alike, kind):
    wrap, unwrap, expected = KINDS[kind]
    seen = alike(trained(wrap, unwrap))
    assert expected <= sites(seen)
    assert len(seen.values("", "activation/l2_norm")) == 2
    assert not seen.faults()


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_a_tensor_that_cannot_be_read_costs_only_itself(alike):
    seen = alike(trained(lambda h: (h.to_sparse(), h.detach().to_sparse_csr(), h), lambda y: y[2]))
    assert "[2]" in sites(seen)
    assert {fault["error"] for fault in seen.faults()} == {"sparse_csr tensors are not supported, only dense ones are"}


def test_of_very_many_tensors_it_is_said_that_some_are_left_out(alike):
    seen = alike(trained(lambda h: [h + number for number in range(80)], lambda y: y[0]))
    assert len({site for site in sites(seen) if site != "layer"}) == 64
    assert [fault["error"] for fault in seen.faults()] == ["of an output only the first 64 tensors are recorded"]
