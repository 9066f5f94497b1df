"""An evaluation between recorded steps, or behind the last one, is seen though no step is recorded around it."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from mindscope.insight.diagnosis import diagnose  # noqa: E402
from mindscope.probe import watch  # noqa: E402
from mindscope.storage import open_store  # noqa: E402

_STEPS = 90


def _trained(store=None, config=None, *, shift=0.0, at=_STEPS - 1, marks_mode=True):
    """Return losses and last answers of a training that evaluates behind the step `at`."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    monitor = None if store is None else watch(model, optimizer, store=store, config=config)
    weights, seen = torch.randn(6, 1), []
    for step in range(_STEPS):
        x = torch.randn(32, 6)
        loss = (model(x) - x @ weights).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.item().hex())
        if step == at:
            model.train(not marks_mode)
            with torch.no_grad():
                seen += [model(torch.randn(64, 6) + shift).sum().item().hex() for _ in range(3)]
            model.train()
    if monitor is not None:
        monitor.close()
    return seen


def _causes(store):
    return {finding.cause for finding in diagnose(store, store.find_run("latest").id).findings}


@pytest.mark.parametrize("at", [_STEPS - 1, 47], ids=["behind the last step", "in an idle phase"])
def test_an_evaluation_in_an_idle_phase_is_compared_with_the_training(at):
    with open_store("memory:") as store:
        _trained(store, {"every": 12}, shift=20.0, at=at)
        assert len(store.series(store.find_run("latest").id, "", "batch/eval/mean", call=0).values) == 1
        assert "train_val_shift" in _causes(store)


def test_an_evaluation_on_data_of_the_same_kind_is_no_shift():
    with open_store("memory:") as store:
        _trained(store, {"every": 12})
        assert len(store.series(store.find_run("latest").id, "", "batch/eval/mean", call=0).values) == 1
        assert "train_val_shift" not in _causes(store)


def test_losses_and_answers_are_those_of_the_training_alone():
    with open_store("memory:") as store:
        assert _trained(store, {"every": 12}) == _trained()


def test_the_function_that_tells_of_evaluations_is_put_back():
    before = torch.nn.Module.train
    with open_store("memory:") as store:
        _trained(store, {"every": 12})
    assert torch.nn.Module.train is before
