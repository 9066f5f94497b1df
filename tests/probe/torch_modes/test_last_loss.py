"""A run ends with the loss of its last step, also where the budget has left that step out."""

import contextlib

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn
from mindscope.framework.optim import SGD
from mindscope.probe import watch
from mindscope.probe.recording import recorder
from mindscope.probe.recording.overhead_budget import Budget, Kind
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
STEPS, RECORDED = 47, 20
THINNED = {"every": 1, "budget": "3%"}


@pytest.fixture(autouse=True)
def one_step_in_twenty(monkeypatch):
    monkeypatch.setattr(Budget, "kind_of", lambda _, due: Kind.IDLE if due % RECORDED else Kind.FULL)
    monkeypatch.setattr(Budget, "next_recorded", lambda _, due: (due // RECORDED + 1) * RECORDED)
    monkeypatch.setattr(Budget, "note", lambda *_: None)


def recorded(train, **config):
    """The steps and values of the loss that were recorded of a training, and the losses that it returned."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    losses = []
    with open_store("memory:") as store:
        with contextlib.suppress(ZeroDivisionError):
            train(
                model, lambda optimizer=None: watch(model, optimizer, store=store, config={**THINNED, **config}), losses
            )
        (run,) = store.runs()
        assert not store.events(run.id, kind="monitor_fault")
        series = store.series(run.id, "", "scalar/loss")
        return series.steps.tolist(), series.values.tolist(), losses


def loss_of(model):
    return (model(torch.randn(8, 3)) - 1.0).square().mean()


def plain(model, watching, losses):
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with watching(optimizer):
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())


def ended_by_an_error_before_its_step(model, watching, losses):
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with watching(optimizer):
        for step in range(STEPS + 1):
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            1 // (STEPS - step)
            optimizer.step()
            losses.append(loss.item())


def followed_by_a_forward(model, watching, losses):
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with watching(optimizer):
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        loss_of(model)


def accumulating(model, watching, losses):
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with watching(optimizer):
        for _ in range(STEPS):
            optimizer.zero_grad()
            parts = [loss_of(model) / 2 for _ in range(2)]
            for part in parts:
                part.backward()
            optimizer.step()
            losses.append(sum(part.item() for part in parts))


def scaled(model, watching, losses):
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.05), torch.amp.GradScaler("cpu", init_scale=1024.0)
    with watching(optimizer):
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = loss_of(model)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())


def with_a_closure(model, watching, losses):
    optimizer, x = torch.optim.LBFGS(model.parameters(), 0.05, max_iter=3), torch.randn(8, 3)

    def closure():
        optimizer.zero_grad()
        loss = (model(x) - 1.0).square().mean()
        loss.backward()
        return loss

    with watching(optimizer):
        losses += [optimizer.step(closure).item() for _ in range(STEPS)]


def with_two_optimizers(model, watching, losses):
    optimizers = [torch.optim.SGD(part.parameters(), 0.05) for part in (model[0], model[2])]
    with watching(optimizers):
        for _ in range(STEPS):
            parts = []
            for optimizer in optimizers:
                optimizer.zero_grad()
                parts.append(loss_of(model))
                parts[-1].backward()
                optimizer.step()
            losses.append(sum(part.item() for part in parts))


TRAININGS = [
    plain,
    ended_by_an_error_before_its_step,
    followed_by_a_forward,
    accumulating,
    scaled,
    with_a_closure,
    with_two_optimizers,
]


@pytest.mark.parametrize("train", TRAININGS, ids=lambda train: train.__name__)
def test_the_loss_of_the_last_step_is_recorded(train):
    steps, values, losses = recorded(train)
    assert steps == [0, RECORDED, 2 * RECORDED, STEPS - 1]
    np.testing.assert_allclose(values, [losses[step] for step in steps], rtol=1e-6)


def test_idle_steps_that_have_records_get_no_loss_but_the_last(monkeypatch):
    monkeypatch.setattr(recorder, "QUIET_S", 0.0)
    steps, values, losses = recorded(plain)
    assert steps == [0, RECORDED, 2 * RECORDED, STEPS - 1]
    assert values[-1] == pytest.approx(losses[-1], rel=1e-6)


def test_a_last_step_that_is_unlike_the_recorded_ones_has_no_loss():
    other = torch.nn.Linear(3, 1)

    def train(model, watching, losses):
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        with watching(optimizer):
            for step in range(STEPS):
                if step == STEPS - 1:
                    loss_of(other).backward()
                optimizer.zero_grad()
                loss_of(model).backward()
                optimizer.step()

    assert recorded(train)[0] == [0, RECORDED, 2 * RECORDED]


@pytest.mark.parametrize("cadence", [{"every": 10}, False], ids=["every-10", "never"])
def test_a_last_step_at_which_no_loss_is_due_has_none(cadence):
    steps, _, _ = recorded(plain, subjects={"loss": cadence})
    assert STEPS - 1 not in steps


def test_the_engine_keeps_it_as_well():
    net = nn.SequentialCell(nn.Dense(3, 4, key=Key(1)), nn.Tanh(), nn.Dense(4, 1, key=Key(2))).set_train()
    optimizer, losses = SGD(net.trainable_params(), learning_rate=0.05), []
    x = Tensor(np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32))
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store, config=THINNED) as monitor:
            for _ in range(STEPS):
                optimizer.zero_grad()
                loss = (net(x) * net(x)).mean()
                loss.backward()
                optimizer.step()
                losses.append(float(loss.numpy()))
        series = store.series(monitor.run.id, "", "scalar/loss")
        assert series.steps.tolist() == [0, RECORDED, 2 * RECORDED, STEPS - 1]
        assert series.values[-1] == pytest.approx(losses[-1], rel=1e-6)


def test_a_loss_that_was_left_out_is_not_recorded_behind_a_step_that_never_ended(caplog):
    """Backward passes that no step follows, as of a head that is trained on what this model gives it."""
    steps = 2 * RECORDED  # so that the one that is left open is recorded, and the one before it was not

    def left_open(model, watching, losses):
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        with watching(optimizer):
            for step in range(steps + 3):
                loss = loss_of(model)
                loss.backward()
                if step < steps:
                    optimizer.step()

    seen, _, _ = recorded(left_open)
    assert steps - 1 not in seen
    assert not caplog.records
