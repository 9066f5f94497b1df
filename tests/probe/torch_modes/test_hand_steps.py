"""Trainings without an optimizer, and in evaluation mode: every step is recorded with its loss."""

import logging

import pytest
from mindscope.watching import run_script

pytest.importorskip("torch", reason="PyTorch is not installed")

START = """
model = net(4, 5, 3)
trained, data = [model], torch.randn(steps, 8, 4)
def loss_of(output):
    return functional.cross_entropy(output, torch.arange(8) % 3)
for x in data:
"""
#: What a turn of the loop does; `loss` is what it descends.
BY_HAND = {
    "without gradients": """
    loss = loss_of(model(x))
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
            p.grad.zero_()
    """,
    "by .data": """
    loss = loss_of(model(x))
    loss.backward()
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-0.1)
        p.grad = None
    """,
    "cleared before the backward pass": """
    loss = loss_of(model(x))
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p - 0.1 * p.grad)
    """,
    "by torch.autograd.grad": """
    loss = loss_of(model(x))
    gradients = torch.autograd.grad(loss, [*model.parameters()])
    with torch.no_grad():
        for p, gradient in zip(model.parameters(), gradients):
            p -= 0.1 * gradient
    """,
    "of functions": """
    weights = globals().get("weights") or dict(model.named_parameters())
    loss = loss_of(torch.func.functional_call(model, weights, x))
    gradients = torch.autograd.grad(loss, [*weights.values()])
    weights = {name: (p - 0.1 * g).detach().requires_grad_() for (name, p), g in zip(weights.items(), gradients)}
    """,
}
KEEP = "    losses.append(loss.item())\n"


@pytest.mark.parametrize("name", BY_HAND)
def test_a_step_is_closed_by_what_changes_the_weights(run_alike, name):
    store, found, losses = run_alike(START + BY_HAND[name] + "\n" + KEEP, steps=6)
    loss = store.series(found.id, "", "scalar/loss")
    steps = len(losses) - (name == "of functions")  # nothing follows its last step that would use the weights
    assert loss.steps.tolist()[:steps] == list(range(steps))
    assert loss.values.tolist()[:steps] == pytest.approx(losses[:steps])
    updates = store.series(found.id, "0.weight", "update/l2_norm").values
    assert len(updates) >= steps - 1
    assert (updates > 0).all()
    if "backward()" in BY_HAND[name]:
        assert (store.series(found.id, "0.weight", "gradient/l2_norm").values > 0).sum() == steps


def test_the_inner_steps_of_meta_learning_are_none_of_the_training(run_alike):
    text = """
model = net(1, 5, 1)
trained, optimizer = [model], torch.optim.SGD(model.parameters(), 0.05)
for _ in range(steps):
    outer = 0.0
    for _ in range(2):
        x, fast = torch.rand(6, 1), dict(model.named_parameters())
        inner = functional.mse_loss(torch.func.functional_call(model, fast, x), x)
        gradients = torch.autograd.grad(inner, [*fast.values()], create_graph=True)
        fast = {name: p - 0.1 * gradient for (name, p), gradient in zip(fast.items(), gradients)}
        outer = outer + functional.mse_loss(torch.func.functional_call(model, fast, x), x)
    optimizer.zero_grad()
    outer.backward()
    optimizer.step()
    losses.append(outer.item())
"""
    store, found, losses = run_alike(text)
    assert store.series(found.id, "", "scalar/loss").values.tolist() == pytest.approx(losses)


@pytest.mark.parametrize("inputs", ["[*model.parameters()]", "model.parameters()"])
def test_gradients_that_are_written_by_hand_keep_their_loss(run_alike, inputs):
    turn = f"""
    loss = loss_of(model(x))
    for p, gradient in zip(model.parameters(), torch.autograd.grad(loss, {inputs})):
        p.grad = gradient
    optimizer.step()
"""
    start = START.replace("for x", "optimizer = torch.optim.SGD(model.parameters(), 0.1)\nfor x")
    store, found, losses = run_alike(start + turn + KEEP)
    assert store.series(found.id, "", "scalar/loss").values.tolist() == pytest.approx(losses)


def test_a_training_in_evaluation_mode_has_a_loss_at_every_step(run_alike):
    start = START.replace("for x", "optimizer = torch.optim.Adam(model.parameters())\nmodel.eval()\nfor x")
    turn = "    optimizer.zero_grad()\n    loss = loss_of(model(x))\n    loss.backward()\n    optimizer.step()\n"
    store, found, losses = run_alike(start + turn + KEEP, steps=12)
    assert store.series(found.id, "", "scalar/loss").values.tolist() == pytest.approx(losses)
    assert len(store.series(found.id, "0", "activation/std").values) >= 11


def test_a_training_that_goes_on_in_evaluation_mode_keeps_its_losses(run_alike):
    start = START.replace(
        "for x in data", "optimizer = torch.optim.Adam(model.parameters())\nfor at, x in enumerate(data)"
    )
    turn = "    optimizer.zero_grad()\n    loss = loss_of(model(x))\n    loss.backward()\n    optimizer.step()\n"
    forgets = "    if at == 3:\n        model.eval()\n"
    store, found, losses = run_alike(start + turn + KEEP + forgets, steps=10)
    assert store.series(found.id, "", "scalar/loss").values.tolist() == pytest.approx(losses)


def test_twenty_backward_passes_without_a_step_are_told_at_once(tmp_path, caplog):
    (tmp_path / "train.py").write_text(
        "import torch\nmodel = torch.nn.Linear(3, 2)\n"
        "for at in range(21):\n    model(torch.ones(2, 3)).sum().backward()\n"
        "print('over')\n"
    )
    with caplog.at_level(logging.WARNING):
        assert run_script(tmp_path / "train.py", [], store=tmp_path / "runs") == 0
    assert "20 backward passes of Linear were seen and no step" in caplog.text


LIVE = """
import sys, time, torch
from mindscope.storage import open_store
model = torch.nn.Linear(3, 2)
optimizer = {optimizer}
for _ in range(20):
    model.zero_grad()
    model{call}(torch.ones(2, 3)).sum().backward()
store = open_store({store!r})
for _ in range(100):
    found = [one.cause for one in store.findings(store.find_run("latest").id)]
    if "missing_optimizer_step" in found:
        break
    time.sleep(0.05)
print("while it runs:", found)
"""


_UNUSED = "torch.optim.SGD(model.parameters(), 0.1)"


@pytest.mark.parametrize(
    ("optimizer", "call"),
    [("None", ""), (_UNUSED, ""), (_UNUSED, ".forward")],
    ids=["no optimizer", "an optimizer", "an optimizer and forwards unseen"],
)
def test_twenty_passes_whose_gradients_nobody_uses_are_a_finding_while_the_script_runs(
    tmp_path, caplog, capsys, optimizer, call
):
    store = str(tmp_path / "runs")
    (tmp_path / "train.py").write_text(LIVE.format(optimizer=optimizer, store=store, call=call))
    with caplog.at_level(logging.WARNING):
        assert run_script(tmp_path / "train.py", [], store=store) == 0
    assert "20 backward passes of Linear were seen and no step" in caplog.text
    assert "missing_optimizer_step" in capsys.readouterr().out


def test_gradients_that_add_up_for_an_optimizer_may_do_so_for_more_than_twenty_passes(run_alike, caplog):
    text = """
model = net(3, 1)
trained, optimizer = [model], torch.optim.SGD(model.parameters(), 0.01)
for _ in range(steps):
    for _ in range(32):
        loss = model(torch.randn(4, 3)).pow(2).mean()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    with caplog.at_level(logging.WARNING):
        store, found, _ = run_alike(text)
    assert "and no step" not in caplog.text
    assert not store.events(found.id, kind="no_step")
