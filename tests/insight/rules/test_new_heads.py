"""A head that is trained alone: on weights that are as they were drawn it is a mistake, on trained ones a question."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.insight import diagnose  # noqa: E402  torch is there
from mindscope.probe import watch  # noqa: E402
from mindscope.storage import open_store  # noqa: E402


def pass_over(net, optimizer, steps):
    for _ in range(steps):
        x = torch.randn(32, 24)
        loss = torch.nn.functional.mse_loss(net(x), x[:, :4].sin())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize(("trained", "severity"), [(0, "warning"), (40, "info")])
def test_a_head_alone(tmp_path, trained, severity):
    torch.manual_seed(0)
    layers = [
        torch.nn.Linear(24, 48),
        torch.nn.Tanh(),
        torch.nn.Linear(48, 48),
        torch.nn.Tanh(),
        torch.nn.Linear(48, 4),
    ]
    net = torch.nn.Sequential(*layers)
    pass_over(net, torch.optim.Adam(net.parameters(), 1e-3), trained)
    store, optimizer = open_store(tmp_path / "runs"), torch.optim.Adam(net[-1].parameters(), 1e-3)
    with watch(net, optimizer, store=store) as monitor:
        pass_over(net, optimizer, 12)
    found = [one for one in diagnose(store, monitor.run.id).findings if one.cause == "parameter_not_in_optimizer"]
    assert [one.severity for one in found] == [severity]
    assert ("nothing was trained or loaded" in found[0].explanation) == (severity == "warning")


def test_a_second_phase_of_the_head_alone_is_a_question(tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(24, 48), torch.nn.Tanh(), torch.nn.Linear(48, 4))
    store = open_store(tmp_path / "runs")
    first, second = torch.optim.SGD(net.parameters(), 1e-4), torch.optim.SGD(net[-1].parameters(), 1e-3)
    with watch(net, first, store=store) as monitor:
        pass_over(net, first, 6)
        pass_over(net, second, 12)
    found = [one for one in diagnose(store, monitor.run.id).findings if one.cause == "parameter_not_in_optimizer"]
    assert all(one.severity == "info" for one in found)
