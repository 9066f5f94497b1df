"""What the monitor raises inside of a training ends the watching, and the training goes on as if unwatched."""

import logging
import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import mindscope as ms  # noqa: E402
from mindscope.probe.adapters.step_lifecycle import StepLifecycle  # noqa: E402
from mindscope.probe.adapters.torch.torch_adoption import Adoption  # noqa: E402
from mindscope.probe.adapters.torch.torch_hand_steps import HandSteps  # noqa: E402
from mindscope.probe.adapters.torch.torch_training import TorchChanges  # noqa: E402

STEPS = 6
CALLED_IN_A_STEP = (
    (StepLifecycle, "forward_opens"),
    (StepLifecycle, "backward_begins"),
    (StepLifecycle, "update_begins"),
    (StepLifecycle, "after_step"),
    (TorchChanges, "before_step"),
    (Adoption, "_adopt"),
)


def train(step, model):
    """Return the losses of some steps, and the weights after them."""
    torch.manual_seed(1)
    losses = []
    for _ in range(STEPS):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 3, (8,)))
        loss.backward()
        step(model)
        losses.append(loss.item())
    return losses, [parameter.tolist() for parameter in model.parameters()]


def model_and_optimizer():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(_):
        optimizer.step()
        optimizer.zero_grad()

    return model, step


def by_hand(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None


@pytest.mark.parametrize(("kind", "name"), CALLED_IN_A_STEP, ids=lambda part: getattr(part, "__name__", part))
def test_a_function_of_the_monitor_that_raises_ends_no_training(kind, name, monkeypatch, tmp_path, caplog):
    model, step = model_and_optimizer()
    expected = train(step, model)

    def broken(*_, **__):
        raise RecursionError("broken on purpose")

    model, step = model_and_optimizer()
    monitor = ms.watch(model, store=tmp_path)
    monkeypatch.setattr(kind, name, broken)
    with caplog.at_level(logging.ERROR), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert train(step, model) == expected
        monkeypatch.undo()
        monitor.close()
    assert sum("broken on purpose" in record.message for record in caplog.records) == 1
    with ms.open_store(tmp_path) as store:
        (event,) = store.events(store.find_run("latest").id, kind="monitor_fault")
    assert event.data["collector"] == "monitor"


def test_a_search_for_steps_by_hand_that_raises_ends_no_training(monkeypatch, tmp_path):
    model, _ = model_and_optimizer()
    expected = train(by_hand, model)
    model, _ = model_and_optimizer()
    monitor = ms.watch(model, store=tmp_path)

    def broken(*_):
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(HandSteps, "_state", broken)
    assert train(by_hand, model) == expected
    monkeypatch.undo()
    monitor.close()
