"""Trainings that differentiate and vectorise functions with `torch.func`."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

META = """
from torch.func import functional_call, grad, vmap
model = net(3, 6, 1)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
def cost(weights, x, y):
    return functional.mse_loss(functional_call(model, weights, (x,)), y)
def adapted(weights, x, y):
    slopes = grad(cost)(weights, x, y)
    return cost({name: weights[name] - 0.1 * slopes[name] for name in weights}, x, y)
for step in range(40):
    x = torch.randn(4, 8, 3)
    loss = vmap(adapted, in_dims=(None, 0, 0))(dict(model.named_parameters()), x, x[..., :1] ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


def test_a_vectorised_inner_loop_is_left_alone_and_its_steps_are_recorded(run_alike):
    store, found, losses = run_alike(META)
    assert found.state == "finished"
    assert store.series(found.id, "", "scalar/loss").values.tolist() == pytest.approx(losses)
    assert store.events(found.id, kind="monitor_fault") == ()
    assert len(store.series(found.id, "0.weight", "gradient/l2_norm").steps) == len(losses)


BEHIND = """
from torch.func import vmap
model = net(3, 6, 1)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(70):
    x = torch.randn(8, 3)
    y = x[:, :1] ** 2
    answer = model(x)
    loss = functional.mse_loss(answer, y)
    optimizer.zero_grad()
    loss.backward()
    with torch.no_grad():
        far = vmap(lambda scale, y: (scale * y - 1).pow(2).mean(), (0, None))(torch.rand(5), y)
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""
OF_SAMPLES = """
from torch.func import vmap
model = net(3, 6, 2)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(70):
    x = torch.randn(8, 3)
    answer, labels = model(x), (x[:, 0] > 0).long()
    costs = vmap(lambda one, label: functional.cross_entropy(one[None], label[None]))(answer, labels)
    loss = 0.1 * answer.square().mean() + costs.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


@pytest.mark.parametrize("text", [META, BEHIND, OF_SAMPLES], ids=["losses inside", "targets used again", "of samples"])
def test_no_check_reads_or_keeps_what_stands_for_a_tensor_inside_of_a_transform(run_alike, caplog, text):
    store, found, _ = run_alike(text)
    assert "a check failed" not in caplog.text
    exchanges = store.events(found.id, kind="exchange")
    assert ["loss" in one.data for one in exchanges] == ([] if text is META else [text is BEHIND] * len(exchanges))
