"""A monitor's life: what it survives, how it ends, and what it says when something is wrong."""

import logging
import os
import threading
import warnings

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.probe import Monitor, NotWatchable, watch
from mindscope.probe.collectors.parameter_collectors import Gradient
from mindscope.storage import open_store


def network():
    model = nn.SequentialCell(nn.Dense(6, 8, key=Key(0)), nn.ReLU(), nn.Dense(8, 3, key=Key(1)))
    model.set_train()
    return model


def train(model, optimizer, steps, *, each=lambda number: None):
    rng = np.random.default_rng(0)
    losses = []
    for number in range(steps):
        x, y = Tensor(rng.normal(size=(5, 6)).astype(np.float32)), Tensor(rng.integers(0, 3, 5))
        loss = ops.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
        each(number)
    return losses


@pytest.fixture
def watched():
    """(monitor, model, optimizer, store)."""
    model, store = network(), open_store("memory:")
    optimizer = nn.SGD(model.trainable_params(), 0.1)
    with watch(model, optimizer, store=store, tags={"lr": 0.1}) as monitor:
        yield monitor, model, optimizer, store


def test_a_finished_run_says_so_and_a_second_close_does_nothing(watched):
    monitor, model, optimizer, store = watched
    train(model, optimizer, 3)
    monitor.close()
    monitor.close()
    run = store.find_run("latest")
    assert (run.state, run.last_step, run.tags, run.name) == ("finished", 2, {"lr": 0.1}, "SequentialCell")


def test_an_exception_in_the_training_is_recorded_and_passes_through():
    model, store = network(), open_store("memory:")

    def fail(number):
        if number == 1:
            raise ArithmeticError("the lights went out")

    optimizer = nn.SGD(model.trainable_params(), 0.1)
    with pytest.raises(ArithmeticError), watch(model, optimizer, store=store):
        train(model, optimizer, 3, each=fail)
    run = store.find_run("latest")
    assert (run.state, run.last_step) == ("failed", 1)
    assert run.error == "ArithmeticError: the lights went out"
    (event,) = store.events(run.id, kind="exception")
    assert (event.step, event.data["type"]) == (1, "ArithmeticError")


def test_scalars_logged_after_the_step_belong_to_it(watched):
    monitor, model, optimizer, store = watched
    train(model, optimizer, 3, each=lambda number: monitor.log({"loss/validation": number * 2.0}, accuracy=0.5))
    monitor.close()
    series = store.series(monitor.run.id, "", "scalar/loss/validation")
    assert series.steps.tolist() == [0, 1, 2]
    assert series.values.tolist() == [0.0, 2.0, 4.0]
    assert store.series(monitor.run.id, "", "scalar/accuracy").values.tolist() == [0.5] * 3


def test_what_is_no_number_is_left_out_with_a_warning(watched):
    monitor, *_ = watched
    with pytest.warns(UserWarning, match="scalar 'note' must be one number, got str"):
        monitor.log(note="fine")


@pytest.mark.parametrize(
    ("scalars", "words"),
    [
        ({5: 1.0}, "the name of a scalar must be a non-empty string that can be encoded, got 5"),
        ({"": 1.0}, "the name of a scalar must be a non-empty string that can be encoded, got ''"),
        ({"\ud800bad": 1.0}, "the name of a scalar must be a non-empty string .* got '.ud800bad'"),
        ({"a": 10**400}, "scalar 'a' must be one number that a float can hold, got a larger one"),
    ],
)
def test_neither_are_names_that_are_none_nor_numbers_beyond_every_float(watched, scalars, words):
    monitor, model, optimizer, store = watched
    with pytest.warns(UserWarning, match=words):
        monitor.log({**scalars, "good": 1.0})
    train(model, optimizer, 2)
    monitor.close()
    assert store.series(monitor.run.id, "", "scalar/good").values.tolist() == [1.0]
    names = {name for record in store.replay(monitor.run.id) for name in record.scalars}
    assert not names & set(scalars)
    assert not store.events(monitor.run.id, kind="monitor_fault")


def test_what_is_logged_after_the_close_is_warned_of_once(watched):
    monitor, model, optimizer, store = watched
    train(model, optimizer, 1)
    monitor.close()
    with pytest.warns(UserWarning, match=f"run {monitor.run.id} is closed: accuracy and what is logged"):
        monitor.log(accuracy=0.5)
    monitor.log(accuracy=0.6)
    assert "scalar/accuracy" not in store.metrics(monitor.run.id)


def test_a_loop_without_an_optimizer_closes_its_steps_by_hand():
    model, store = network(), open_store("memory:")
    with watch(model, store=store) as monitor:
        for _ in range(3):
            ops.cross_entropy(model(Tensor(np.ones((5, 6), np.float32))), Tensor(np.zeros(5, np.int64))).backward()
            monitor.step_done()
    assert monitor.step == 3
    assert len(store.series(monitor.run.id, "2.weight", "gradient/l2_norm").values) == 3


def test_a_failing_collector_is_switched_off_reported_once_and_changes_nothing(monkeypatch, caplog, watched):
    monitor, model, optimizer, store = watched
    alone = network()
    expected = train(alone, nn.SGD(alone.trainable_params(), 0.1), 4)

    def fail(*_):
        raise OSError("no such gradient")

    monkeypatch.setattr(Gradient, "__call__", fail)
    with caplog.at_level(logging.ERROR, "mindscope.probe"):
        assert train(model, optimizer, 4) == expected
    monitor.close()
    assert len([one for one in caplog.records if "'gradient' failed" in one.getMessage()]) == 1
    (event,) = store.events(monitor.run.id, kind="monitor_fault")
    assert event.data == {"collector": "gradient", "error": "OSError: no such gradient"}
    assert len(store.series(monitor.run.id, "0.weight", "weight/std").values) == 4


def test_after_a_flush_every_finished_step_can_be_read(watched):
    monitor, model, optimizer, store = watched
    train(model, optimizer, 2)
    monitor.flush()
    assert [record.step for record in store.replay(monitor.run.id)] == [0, 1]
    assert monitor.fault is None


def test_a_loss_that_needs_a_gradient_is_logged_without_a_warning(watched):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    monitor, model, optimizer, store = watched
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monitor.log(mine=torch.ones((), requires_grad=True) * 2)
    train(model, optimizer, 1)
    monitor.flush()
    (record,) = store.replay(monitor.run.id)
    assert record.scalars["mine"] == 2.0


def test_a_monitor_that_saw_no_step_says_so(caplog):
    model = network()
    with caplog.at_level(logging.WARNING, "mindscope.probe"), watch(model, store=open_store("memory:")):
        pass
    assert "no step was recorded" in caplog.text


def test_a_first_due_step_without_activations_is_noted(watched):
    monitor, model, optimizer, store = watched
    model.set_train(False)
    train(model, optimizer, 2)
    monitor.close()
    (event,) = store.events(monitor.run.id, kind="monitor_fault")
    assert event.step == 0
    assert "no activation was recorded" in str(event.data["error"])


def test_a_training_in_another_thread_is_watched(watched):
    monitor, model, optimizer, store = watched
    thread = threading.Thread(target=train, args=(model, optimizer, 3))
    thread.start()
    thread.join()
    monitor.close()
    assert store.find_run("latest").last_step == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_copy_of_the_process_records_nothing_and_says_so_once(watched, caplog):
    monitor, model, optimizer, store = watched
    train(model, optimizer, 2)
    child = os.fork()
    if child == 0:
        caplog.clear()
        train(model, optimizer, 3, each=lambda number: monitor.log(number=number))
        said = [record.message for record in caplog.records if "is a forked copy" in record.message]
        os._exit(0 if monitor.step == 2 and len(said) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    train(model, optimizer, 1)
    monitor.close()
    assert store.find_run("latest").last_step == 2


def test_an_optimizer_of_another_model_is_refused_and_leaves_nothing():
    model, other, store = network(), network(), open_store("memory:")
    with pytest.raises(NotWatchable, match="SGD steps no parameter of SequentialCell; pass the optimizer"):
        watch(model, nn.SGD(other.trainable_params(), 0.1), store=store)
    assert store.runs() == ()
    watch(model, nn.SGD(model.trainable_params(), 0.1), store=store).close()


def test_the_gradient_norm_of_a_step_is_that_over_all_its_optimizers():
    model, store = network(), open_store("memory:")
    parameters = model.trainable_params()
    optimizers = [nn.SGD(parameters[:2], 0.1), nn.SGD(parameters[2:], 0.2)]
    norms = []
    with watch(model, optimizers, store=store) as monitor:
        for step in range(3):
            for optimizer in optimizers:
                optimizer.zero_grad()
            (model(Tensor(np.full((5, 6), step + 1.0, np.float32))) ** 2).mean().backward()
            norms.append(np.sqrt(sum((one.grad.numpy().astype(np.float64) ** 2).sum() for one in parameters)))
            for optimizer in optimizers:
                optimizer.step()
    np.testing.assert_allclose(store.series(monitor.run.id, "", "scalar/gradient_norm").values, norms, rtol=1e-6)


def test_forty_cycles_leave_no_hook():
    model = network()
    optimizer = nn.SGD(model.trainable_params(), 0.1)
    for _ in range(40):
        with watch(model, optimizer, store=open_store("memory:")) as monitor:
            train(model, optimizer, 1)
        assert isinstance(monitor, Monitor)
    hooks = [cell._cell_hooks for _, cell in model.cells_and_names()]
    assert not any(one.forward or one.forward_pre or one.backward for one in hooks if one)
    assert not any((optimizer._before, optimizer._after, optimizer._skipped))
