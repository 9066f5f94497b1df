"""Trainings of single tensors, without a module: recorded by the names of the script's variables."""

import logging

import pytest
from mindscope.storage import open_store
from mindscope.watching import run_script

pytest.importorskip("torch", reason="PyTorch is not installed")

START = """
w, b = torch.zeros(3, requires_grad=True), torch.zeros(1, requires_grad=True)
trained, data = [], torch.randn(steps, 8, 3)
def loss_of(x):
    return ((x @ w + b - x.sum(1) - x.prod(1)) ** 2).mean()
"""
#: What makes the optimizer, and a turn of the loop.
WAYS = {
    "by an optimizer": (
        "optimizer = torch.optim.SGD([w, b], 0.1)",
        "optimizer.zero_grad(); loss = loss_of(x); loss.backward(); optimizer.step()",
    ),
    "by .data": (
        "",
        "loss = loss_of(x); loss.backward(); w.data -= 0.1 * w.grad; b.data -= 0.1 * b.grad; w.grad = b.grad = None",
    ),
    "by torch.autograd.grad": (
        "",
        "loss = loss_of(x); g = torch.autograd.grad(loss, [w, b]); w.data -= 0.1 * g[0]; b.data -= 0.1 * g[1]",
    ),
}
KEEP = "    losses.append(loss.item())\n"


def _text(way: str) -> str:
    make, turn = WAYS[way]
    return f"{START}{make}\nfor x in data:\n    {turn}\n{KEEP}"


@pytest.mark.parametrize("way", WAYS)
def test_every_step_is_recorded_with_its_loss_and_the_names_of_the_variables(run_alike, way):
    store, found, losses = run_alike(_text(way), steps=6)
    loss = store.series(found.id, "", "scalar/loss")
    assert loss.steps.tolist() == list(range(6))
    assert loss.values.tolist() == pytest.approx(losses)
    assert {one.site for one in store.structure(found.id).parameters} == {"w", "b"}
    for name in ("w", "b"):
        updates = store.series(found.id, name, "update/l2_norm").values
        assert len(updates) == 6
        assert (updates > 0).all()
        if way != "by torch.autograd.grad":
            gradients = store.series(found.id, name, "gradient/l2_norm").values
            assert gradients.tolist() == pytest.approx((updates / 0.1).tolist(), rel=1e-4)


def test_tensors_that_are_made_anew_at_every_step_are_followed(run_alike):
    text = START + (
        "for x in data:\n    loss = loss_of(x)\n    loss.backward()\n"
        "    w, b = [(p - 0.1 * p.grad).detach().requires_grad_() for p in (w, b)]\n" + KEEP
    )
    store, found, losses = run_alike(text, steps=6)
    values = store.series(found.id, "", "scalar/loss").values.tolist()
    assert values[:5] == pytest.approx(losses[:5])  # nothing uses what the last step makes
    assert (store.series(found.id, "w", "update/l2_norm").values > 0).sum() == 5


def test_elements_of_a_list_are_named_by_it_and_not_by_the_variable_of_a_loop(run_alike):
    text = (
        "weights, trained = [torch.ones(2, 2, requires_grad=True), torch.ones(2, requires_grad=True)], []\n"
        "for _ in range(steps):\n    loss = (weights[0] @ weights[1] - 3).pow(2).sum()\n    loss.backward()\n"
        "    for p in weights:\n        p.data -= 0.01 * p.grad\n        p.grad = None\n" + KEEP
    )
    store, found, _ = run_alike(text)
    assert {one.site for one in store.structure(found.id).parameters} == {"weights.0", "weights.1"}


@pytest.mark.parametrize("way", ["by .data", "by torch.autograd.grad"])
def test_a_long_training_by_hand_is_recorded_to_its_end(run_alike, way):
    store, found, losses = run_alike(_text(way), steps=300)
    loss = store.series(found.id, "", "scalar/loss")
    assert loss.steps[-1] == 299
    assert loss.values[-1] == pytest.approx(losses[-1])


def test_gradients_of_inputs_before_a_training_do_not_keep_it_from_being_recorded(run_alike):
    text = """
for value in (1.0, 2.0, 3.0):
    x = torch.full((2,), value, requires_grad=True)
    (x ** 2).sum().backward()
model = net(3, 1)
trained, optimizer = [model], torch.optim.SGD(model.parameters(), 0.1)
for _ in range(steps):
    loss = model(torch.randn(4, 3)).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    losses.append(loss.item())
"""
    store, found, losses = run_alike(text)
    assert store.series(found.id, "", "scalar/loss").values.tolist() == pytest.approx(losses)
    assert {one.site for one in store.structure(found.id).parameters} == {"0.weight", "0.bias"}


def test_tensors_beside_a_watched_model_are_named_and_said_to_be_of_no_module(tmp_path, caplog):
    (tmp_path / "train.py").write_text(
        "import torch\nmodel, scale = torch.nn.Linear(3, 1), torch.ones(1, requires_grad=True)\n"
        "optimizer = torch.optim.SGD([*model.parameters(), scale], 0.1)\n"
        "(model(torch.ones(2, 3)) * scale).sum().backward()\noptimizer.step()\n"
    )
    with caplog.at_level(logging.WARNING):
        assert run_script(tmp_path / "train.py", [], store=tmp_path / "runs") == 0
    assert (
        "1 of the 3 parameters that SGD steps are not watched (watched is Linear): no Module has scale" in caplog.text
    )
    assert "other modules" not in caplog.text


def test_tensors_that_nothing_moves_are_told_at_once_and_at_the_end(tmp_path, caplog, capsys):
    (tmp_path / "train.py").write_text(
        "import torch\nw = torch.zeros(3, requires_grad=True)\n"
        "for _ in range(20):\n    ((w - 1) ** 2).sum().backward()\n"
    )
    with caplog.at_level(logging.WARNING):
        assert run_script(tmp_path / "train.py", [], store=tmp_path / "runs") == 0
    words = "20 backward passes reached w, which no Module holds, and nothing moved them"
    assert words in caplog.text
    assert words in capsys.readouterr().err
    assert not open_store(tmp_path / "runs").runs()
