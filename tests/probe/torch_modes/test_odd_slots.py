"""Optimizers whose state is no plain tensor of the parameter's shape."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


class Hoarder(torch.optim.Optimizer):
    """Gradient descent that keeps a tensor of every kind."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure=None):
        """Moves the weights, whatever the state says."""
        for group in self.param_groups:
            for one in group["params"]:
                state = self.state[one]
                if not state:
                    state |= {"codes": torch.zeros_like(one, dtype=torch.int8), "scale": torch.tensor(0.5)}
                    state |= {"half": torch.zeros_like(one, dtype=torch.bfloat16), "empty": torch.empty(0)}
                    state |= {"past": [], "named": {"fast": one.clone(), "word": "none"}, "step": torch.tensor(0.0)}
                    state |= {"pair": [one.clone(), torch.zeros(2)]}
                state["past"].append(one.grad.clone())
                state["codes"] += 1
                state["step"] += 1
                one.sub_(one.grad, alpha=group["lr"])


def trained(watching):
    net = torch.nn.Linear(3, 2)
    optimizer = Hoarder(net.parameters())
    losses = []
    with watching(net, optimizer):
        for _ in range(12):
            optimizer.zero_grad()
            loss = net(torch.ones(4, 3)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses, net


def test_slots_of_every_kind_have_their_own_names(alike):
    seen = alike(trained)
    slots = {metric.split("/")[1] for metric in seen.store.metrics(seen.run) if metric.startswith("optimizer/")}
    past = {"past[0]", "past[-1]"}  # of a list that grows the newest; at the first step it has not grown yet
    assert slots == {"codes", "scale", "half", "empty", "named[fast]", "pair[0]", "pair[1]"} | past
    assert seen.values("weight", "optimizer/codes/max").tolist() == list(range(1, 13))
    assert (seen.values("weight", "optimizer/scale/mean") == 0.5).all()
    assert (seen.values("bias", "optimizer/empty/size") == 0).all()
    assert not seen.faults()


def test_of_a_list_that_grows_the_newest_entry_is_followed(alike):
    seen = alike(trained)
    gradients = seen.values("weight", "gradient/l2_norm")
    found = seen.store.series(seen.run, "weight", "optimizer/past[-1]/l2_norm")
    assert found.steps.tolist() == list(range(1, 12))
    np.testing.assert_array_equal(found.values, gradients[1:])
    assert len(seen.values("weight", "optimizer/pair[1]/size")) == 12
