"""What goes wrong in a training, or in watching it, is told, and never harms the training."""

import errno
import logging
import os
from collections import OrderedDict

import numpy as np
import pytest
from mindscope.insight import LiveDiagnosis
from mindscope.probe import NotWatchable, watch
from mindscope.storage import open_store
from mindscope.storage.database.recording_writer import RecordingWriter

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn = torch.nn


class Fragile(nn.Module):
    """Raises in the middle of a forward when it is told to."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.error = nn.Linear(4, 4), nn.Linear(4, 2), None

    def forward(self, x):
        x = self.first(x)
        if self.error is not None:
            raise self.error
        return self.last(x)


def step(model, optimizer, size=3):
    optimizer.zero_grad()
    loss = model(torch.randn(size, 4)).square().sum()
    loss.backward()
    optimizer.step()
    return loss.item()


def fragile():
    torch.manual_seed(0)
    model = Fragile()
    return model, torch.optim.SGD(model.parameters(), 0.01)


@pytest.mark.parametrize("nan_trace", [False, True])
@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_forward_that_raises_is_passed_through_and_the_next_step_is_whole(alike, error, nan_trace):
    def train(watching):
        model, optimizer = fragile()
        with watching(model, optimizer):
            losses = [step(model, optimizer)]
            model.error = error
            with pytest.raises(type(error)):
                step(model, optimizer)
            model.error = None
            losses += [step(model, optimizer) for _ in range(2)]
        return losses, model

    seen = alike(train, config={"nan_trace": nan_trace})
    assert seen.values("", "scalar/loss").tolist() == seen.losses
    assert [record.step for record in seen.records()] == [0, 1, 2]
    assert [seen.calls("last", number) for number in range(3)] == [1, 1, 1]
    assert seen.faults() == []
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_an_interrupt_that_ends_the_training_ends_the_run():
    model, optimizer = fragile()
    store = open_store("memory:")
    model.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), watch(model, optimizer, store=store) as monitor:
        step(model, optimizer)
    run = store.find_run(monitor.run.id)
    assert (run.state, run.error) == ("failed", "KeyboardInterrupt")
    assert not model._forward_pre_hooks


def test_an_empty_batch_is_a_step_with_empty_activations(alike):
    def train(watching):
        model, optimizer = fragile()
        with watching(model, optimizer):
            return [step(model, optimizer, size) for size in (3, 0, 3)], model

    seen = alike(train)
    assert seen.values("last", "activation/size").tolist() == [6, 0, 6]
    assert np.isnan(seen.values("last", "activation/mean")[1])
    assert seen.values("last.weight", "gradient/l2_norm")[1] == 0.0
    assert seen.faults() == []


def test_lazy_layers_are_seen_from_the_first_step_on(alike):
    def train(watching):
        torch.manual_seed(0)
        model = nn.Sequential(nn.LazyLinear(5), nn.LazyLinear(2))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        with watching(model, optimizer):
            return [step(model, optimizer) for _ in range(3)], model

    seen = alike(train)
    assert len(seen.values("1.weight", "update/l2_norm")) == 3
    assert len(seen.values("0", "activation/std")) == 3
    assert {one.site: one.shape for one in seen.store.structure(seen.run).parameters}["1.weight"] == (2, 5)


@pytest.mark.parametrize("is_exchanged", [False, True], ids=["joins", "takes the place of another"])
def test_a_module_that_comes_later_is_recorded_from_its_first_forward_on(alike, is_exchanged):
    def train(watching):
        torch.manual_seed(0)
        model = nn.Sequential(OrderedDict(body=nn.Linear(4, 4), head=nn.Linear(4, 2)))
        optimizer = torch.optim.SGD(model.parameters(), 1e-2)
        losses = []
        with watching(model, optimizer):
            for number in range(5):
                if number == 2:
                    late = nn.Linear(4, 2) if is_exchanged else nn.Linear(2, 2)
                    model.add_module("head" if is_exchanged else "late", late)
                    optimizer.add_param_group({"params": late.parameters()})
                losses.append(step(model, optimizer))
        assert not any(module._forward_hooks for module in model.modules())
        return losses, model

    seen, late = alike(train), "head" if is_exchanged else "late"
    steps = seen.store.series(seen.run, late, "activation/std").steps.tolist()
    assert steps == ([0, 1, 2, 3, 4] if is_exchanged else [2, 3, 4])
    assert seen.store.series(seen.run, f"{late}.weight", "gradient/l2_norm").steps.tolist()[-3:] == [2, 3, 4]
    blocks = [block for record in seen.records() for block in record.blocks if block.layout.subject == "weight"]
    assert all(len({*block.layout.sites}) == len(block.layout.sites) for block in blocks)
    (told,) = seen.events("modules_changed")
    assert (told.step, told.data["sites"]) == (2, [late])
    order = {one.site: one.order for one in seen.store.structure(seen.run).modules}
    assert order["body"] < order[late] < order[""]
    assert seen.faults() == []


def test_layers_without_parameters_that_come_later_are_recorded_from_their_first_forward_on(alike):
    def train(watching):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4))
        optimizer = torch.optim.SGD(model.parameters(), 1e-2)
        losses = []
        with watching(model, optimizer):
            for number in range(25):
                if number == 5:
                    model.append(nn.ReLU())
                losses.append(step(model, optimizer))
        return losses, model

    seen = alike(train)
    assert seen.store.series(seen.run, "1", "activation/std").steps.tolist() == list(range(5, 25))


@pytest.mark.parametrize("rule", [torch.optim.SGD, torch.optim.AdamW])
def test_numbers_of_a_module_in_exchange_for_one_with_as_many_parameters_are_its_own_at_once(alike, rule):
    moved = []

    def train(watching):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        optimizer = rule(model.parameters(), 1e-2)
        losses = []
        with watching(model, optimizer):
            for number in range(25):
                if number == 13:
                    model[1] = nn.Linear(4, 2)
                    optimizer.param_groups[0]["params"] = list(model.parameters())
                before = model[1].weight.detach().clone()
                losses.append(step(model, optimizer))
                moved.append(float((model[1].weight.detach() - before).double().norm()))
        return losses, model

    seen = alike(train)
    assert seen.store.series(seen.run, "1", "activation/std").steps.tolist() == list(range(25))
    (told,) = seen.events("modules_changed")
    assert (told.step, told.data["sites"]) == (13, ["1"])
    np.testing.assert_allclose(seen.values("1.weight", "update/l2_norm"), moved[:25], rtol=1e-6)
    assert not seen.events("gradient_before_forward")
    assert seen.faults() == []


def test_a_model_without_parameters_shows_its_activations(alike):
    def train(watching):
        model = nn.Sequential(nn.Tanh(), nn.Flatten())
        monitor = watching(model)
        with monitor:
            for _ in range(2):
                model(torch.ones(3, 4, requires_grad=True)).sum().backward()
                getattr(monitor, "step_done", lambda: None)()
        return [], model

    seen = alike(train)
    assert len(seen.values("0", "activation_grad/l2_norm")) == 2
    assert len(seen.values("", "scalar/loss")) == 2
    assert seen.faults() == []


def test_an_optimizer_of_another_model_is_refused_and_leaves_nothing():
    (model, _), (_, stranger) = fragile(), fragile()
    store = open_store("memory:")
    with pytest.raises(NotWatchable, match="SGD steps no parameter of Fragile; pass the optimizer that was made from"):
        watch(model, stranger, store=store)
    assert store.runs() == ()
    assert not model.first._forward_hooks


def test_a_model_is_watched_once_at_a_time():
    model, optimizer = fragile()
    store = open_store("memory:")
    with watch(model, optimizer, store=store) as monitor:
        with pytest.raises(NotWatchable, match=r"Fragile is watched already; close\(\) its monitor first"):
            watch(model, optimizer, store=store)
        step(model, optimizer)
    assert monitor.step == 1
    with watch(model, optimizer, store=store) as again:
        step(model, optimizer)
    assert again.step == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_step_in_a_forked_child_records_nothing_and_the_parent_goes_on(tmp_path):
    model, optimizer = fragile()
    with open_store(tmp_path) as store, watch(model, optimizer, store=store) as monitor:
        step(model, optimizer)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                step(model, optimizer)
                monitor.close()
                status = 0 if monitor.step == 1 and not model._forward_hooks else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        step(model, optimizer)
        assert monitor.step == 2
        monitor.close()
        assert len(list(store.replay(monitor.run.id))) == 2
        assert store.find_run(monitor.run.id).state == "finished"


def test_a_disk_that_fills_costs_observations_one_warning_and_a_finding(tmp_path, monkeypatch, caplog):
    model, optimizer = fragile()
    alone, of_alone = fragile()
    torch.manual_seed(1)
    expected = [step(alone, of_alone) for _ in range(12)]
    write, is_full = RecordingWriter.write, False

    def write_if_there_is_room(self, *arguments):
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, *arguments)

    monkeypatch.setattr(RecordingWriter, "write", write_if_there_is_room)
    torch.manual_seed(1)
    losses = []
    with (
        open_store(tmp_path) as store,
        watch(model, optimizer, store=store, listeners=[LiveDiagnosis()]) as monitor,
        caplog.at_level(logging.WARNING),
    ):
        for number in range(12):
            is_full = 4 <= number < 8
            losses.append(step(model, optimizer))
            monitor.flush()
            if is_full:
                assert isinstance(monitor.fault, OSError)
        monitor.close()
        (lost,) = store.events(monitor.run.id, kind="observations_lost")
        findings = [one for one in store.findings(monitor.run.id) if one.rule == "monitor-fault"]
        kept = sum(bool(record.blocks) for record in store.replay(monitor.run.id))
    assert losses == expected
    assert 8 <= kept < 12
    assert lost.data["count"] == 12 - kept
    assert [one.evidence["count"] for one in findings] == [12 - kept]
    said = [record.message for record in caplog.records if "cannot be written" in record.message]
    assert len(said) == 1
    assert "No space left on device" in said[0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_exports_and_transforms_of_a_watched_model_leave_its_collectors_on(alike):
    def train(watching):
        model, optimizer = fragile()
        with watching(model, optimizer):
            losses = [step(model, optimizer)]
            torch.export.export(model, (torch.ones(2, 4),))
            torch.jit.trace(model, torch.ones(2, 4), check_trace=False)
            torch.func.vmap(model)(torch.ones(3, 4))
            torch.func.functional_call(model, dict(model.named_parameters()), (torch.ones(2, 4),))
            losses += [step(model, optimizer) for _ in range(2)]
        return losses, model

    seen = alike(train)
    steps = [seen.store.series(seen.run, "last", "activation_grad/std", call=call).steps.tolist() for call in (0, 1)]
    assert steps == [[0, 2], [1]]  # in step 1 the functional forward came before that of the training
    assert seen.faults() == []
