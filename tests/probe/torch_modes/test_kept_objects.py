"""Objects that a module keeps tensors in: what a copy writes there, the training does not see."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.kept_objects import is_copied  # noqa: E402
from mindscope.probe.checks.model_call import ModelCall  # noqa: E402
from mindscope.probe.checks.model_probe import ModelProbe  # noqa: E402
from torch import nn  # noqa: E402


class Queue:
    """Keys of the last calls, oldest first to be replaced."""

    def __init__(self):
        self.keys, self.at = torch.randn(16, 4), 0

    def push(self, keys):
        self.keys[self.at : self.at + len(keys)] = keys
        self.at = (self.at + len(keys)) % 16


class Contrasting(nn.Module):
    """Returns its loss, and pushes its keys."""

    def __init__(self):
        super().__init__()
        self.encode, self.queue = nn.Linear(6, 4), Queue()

    def forward(self, x):
        keys = self.encode(x)
        loss = (keys @ self.queue.keys.clone().t()).logsumexp(1).mean()
        self.queue.push(keys.detach())
        return loss


class _Locked:
    def __init__(self):
        self.keys = torch.zeros(3)

    def __deepcopy__(self, memo):
        raise AssertionError("not to be copied")


def test_calls_of_a_copy_leave_the_queue_of_the_training_alone():
    torch.manual_seed(0)
    model = Contrasting()
    keys, at = model.queue.keys.clone(), model.queue.at
    probe = ModelProbe(model, ModelCall((torch.randn(8, 6),), {}, ("x",)))
    assert probe.noise == 0.0
    probe.answers({})
    assert torch.equal(model.queue.keys, keys)
    assert model.queue.at == at


def test_losses_are_the_same_with_and_without_a_monitor(alike):
    def training(watching):
        model, losses = Contrasting(), []
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with watching(model, optimizer):
            for _ in range(30):
                loss = model(torch.randn(8, 6))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses, model

    alike(training)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(Queue(), True), (_Locked(), False), (torch.zeros(3), False), (nn.Linear(2, 2), False), ([torch.zeros(3)], False)],
)
def test_only_plain_objects_with_tensors_are_copied(value, expected):
    assert is_copied(value) == expected
