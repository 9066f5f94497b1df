"""Schedules of the learning rate that do, or do not, what their type says by the end of a training."""

import pytest
from mindscope.probe import watch
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.insight import diagnose  # noqa: E402  torch is there

schedules = torch.optim.lr_scheduler
#: Steps of a training, and of one of its epochs.
STEPS, EPOCH = 120, 10


def warm_up(optimizer):
    return schedules.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 300))


def after_a_warm_up(optimizer):
    parts = [schedules.LinearLR(optimizer, 0.1, total_iters=200), schedules.CosineAnnealingLR(optimizer, STEPS)]
    return schedules.SequentialLR(optimizer, parts, [200])


CASES = {
    "cosine": (lambda optimizer: schedules.CosineAnnealingLR(optimizer, STEPS), 1, None),
    "cosine of epochs": (lambda optimizer: schedules.CosineAnnealingLR(optimizer, STEPS // EPOCH), EPOCH, None),
    "cosine of epochs, stepped each batch": (lambda optimizer: schedules.CosineAnnealingLR(optimizer, 12), 1, "info"),
    "cosine that is too short": (lambda optimizer: schedules.CosineAnnealingLR(optimizer, 70), 1, "info"),
    "cosine of batches, stepped each epoch": (
        lambda optimizer: schedules.CosineAnnealingLR(optimizer, STEPS), EPOCH, "warning",
    ),
    "one cycle": (lambda optimizer: schedules.OneCycleLR(optimizer, 0.1, STEPS + 1), 1, None),
    "one cycle, stepped each epoch": (lambda optimizer: schedules.OneCycleLR(optimizer, 0.1, STEPS), EPOCH, "warning"),
    "a training that ends early": (lambda optimizer: schedules.CosineAnnealingLR(optimizer, 20 * STEPS), 1, None),
    "many short epochs, of which few were trained": (
        lambda optimizer: schedules.CosineAnnealingLR(optimizer, 130), EPOCH, "info",
    ),
    "warm-up": (warm_up, 1, None),
    "warm-up, stepped each epoch": (warm_up, EPOCH, "info"),
    "milestones of epochs": (lambda optimizer: schedules.MultiStepLR(optimizer, [6, 9]), EPOCH, None),
    "milestones of epochs, stepped each batch": (
        lambda optimizer: schedules.MultiStepLR(optimizer, [3, 5]), 1, "warning",
    ),
    "milestones of batches": (lambda optimizer: schedules.MultiStepLR(optimizer, [60, 90]), 1, None),
    "stepped for each of four micro-batches": (
        lambda optimizer: schedules.CosineAnnealingLR(optimizer, 4 * STEPS), 1 / 4, "warning",
    ),
    "part of another": (after_a_warm_up, EPOCH, None),
}  # fmt: skip


def train(tmp_path, make, *, every, told=lambda losses: ()):
    """Train, stepping the schedule after so many steps; return the severity of a wrong schedule."""
    torch.manual_seed(0)
    model, true = torch.nn.Linear(4, 1), torch.randn(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.5)
    schedule, losses, store = make(optimizer), [], open_store(tmp_path / "runs")
    with watch(model, optimizer, store=store) as monitor:
        for step in range(STEPS):
            x = torch.randn(16, 4)
            loss = torch.nn.functional.mse_loss(model(x), x @ true + 0.3 * torch.randn(16, 1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            for _ in range(round(1 / every) if every < 1 else (step + 1) % every == 0):
                schedule.step(*told(losses))
    findings = diagnose(store, monitor.run.id).findings
    return next((each.severity for each in findings if each.cause == "schedule_error"), None)


@pytest.mark.parametrize("name", CASES)
def test_a_schedule_does_what_its_type_says(tmp_path, name):
    make, every, severity = CASES[name]
    assert train(tmp_path, make, every=every) == severity


@pytest.mark.parametrize(
    ("mode", "told", "severity"),
    [
        ("max", lambda losses: (sum(losses[-EPOCH:]) / EPOCH,), "warning"),
        ("max", lambda losses: (losses[-1],), "warning"),
        ("min", lambda losses: (losses[-1],), None),
        ("max", lambda losses: (1 / (1 + losses[-1]),), None),
    ],
    ids=["mean loss", "last loss", "min", "score"],
)
def test_a_plateau_of_a_score_is_not_told_the_loss(tmp_path, mode, told, severity):
    found = train(tmp_path, lambda optimizer: schedules.ReduceLROnPlateau(optimizer, mode), every=EPOCH, told=told)
    assert found == severity


def test_a_schedule_of_a_function_that_has_returned_is_known(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    store, optimizer = open_store(tmp_path / "runs"), torch.optim.SGD(model.parameters(), 0.05)

    def fit():
        schedule = schedules.CosineAnnealingLR(optimizer, STEPS)
        for step in range(STEPS):
            optimizer.zero_grad()
            model(torch.randn(16, 4)).square().mean().backward()
            optimizer.step()
            if (step + 1) % EPOCH == 0:
                schedule.step()

    with watch(model, optimizer, store=store) as monitor:
        fit()
    [event] = store.events(monitor.run.id, kind="schedule")
    assert (event.data["type"], event.data["stepped"]) == ("CosineAnnealingLR", STEPS / EPOCH)
    assert "schedule_error" in {found.cause for found in diagnose(store, monitor.run.id).findings}
