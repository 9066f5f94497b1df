"""Cells and parameters that join an engine model while it is watched, or take the place of others, are observed."""

import numpy as np
import pytest
from mindscope.framework import Key, Parameter, Tensor, nn, ops, value_and_grad
from mindscope.framework.compiler import jit
from mindscope.framework.compiler.observers import OBSERVERS
from mindscope.probe import watch
from mindscope.storage import open_store


class Scaled(nn.Cell):
    """A body, whatever joins it, and a head."""

    def __init__(self):
        super().__init__()
        self.body = nn.SequentialCell(nn.Dense(6, 6, key=Key(0)))
        self.head = nn.Dense(6, 3, key=Key(1))

    def construct(self, x):
        x = self.body(x)
        return self.head(x * self.scale if "scale" in self._parameters else x)


def batch(number):
    random = np.random.default_rng(number)
    return Tensor(random.normal(size=(8, 6)).astype(np.float32)), Tensor(random.integers(0, 3, 8))


def eager_step(model, _parameters):
    def step(x, y):
        loss = ops.cross_entropy(model(x), y)
        for parameter in model.get_parameters():
            parameter.grad = None
        loss.backward()
        return loss, None

    return step


def compiled(capture_mode):
    def stepping(model, parameters):
        gradients_of = value_and_grad(lambda x, y: ops.cross_entropy(model(x), y), None, list(parameters))
        return jit(gradients_of, capture_mode=capture_mode)

    return stepping


def add_cell(model):
    model.body.append(nn.Dense(6, 6, key=Key(2)).set_train())


def exchange_cell(model):
    model.head = nn.Dense(6, 3, key=Key(3)).set_train()


def add_parameter(model):
    model.scale = Parameter(np.full(6, 2.0, np.float32))


def exchange_parameter(model):
    model.head.weight = Parameter(np.full((3, 6), 0.25, np.float32))


def remove_cell(model):
    model.body = nn.SequentialCell().set_train()


CHANGES = {
    "a cell joins": (add_cell, ["body.1"], {"body.1.weight", "body.1.bias"}),
    "a cell is exchanged": (exchange_cell, ["head"], {"head.weight"}),
    "a parameter joins": (add_parameter, [], {"scale"}),
    "a parameter is exchanged": (exchange_parameter, [], {"head.weight"}),
    "a cell goes": (remove_cell, ["body", "body.0"], set()),
}
AT, STEPS = 3, 8


def trained(change, stepping, store=None):
    """Losses of a training that is changed before step `AT`, with one optimizer from beginning to end."""
    model = Scaled().set_train()
    optimizer = nn.SGD(model.trainable_params(), 0.1)
    step, losses = stepping(model, optimizer.parameters), []
    monitor = None if store is None else watch(model, optimizer, store=store)
    for number in range(STEPS):
        if number == AT:
            change(model)
        loss, gradients = step(*batch(number))
        optimizer.step() if gradients is None else optimizer(gradients)
        losses.append(loss.numpy().tobytes())
    if monitor is not None:
        monitor.close()
    assert not OBSERVERS
    assert all(not (one._cell_hooks and one._cell_hooks.forward) for _, one in model.cells_and_names())
    return losses, model


@pytest.mark.parametrize("name", CHANGES)
def test_what_joins_later_is_recorded_from_the_next_step_on(name):
    change, sites, parameters = CHANGES[name]
    with open_store("memory:") as store:
        losses, model = trained(change, eager_step, store)
        assert losses == trained(change, eager_step)[0]
        run = store.find_run("latest").id
        here = dict(model.cells_and_names())
        for site in sites:
            before = [] if name == "a cell joins" else list(range(AT))
            after = list(range(AT + 1, STEPS)) if site in here else []
            assert store.series(run, site, "activation/std").steps.tolist() == before + after
        for one in parameters:
            steps = store.series(run, one, "gradient/l2_norm").steps.tolist()
            assert steps[-(STEPS - AT) :] == list(range(AT, STEPS))
            values = dict(model.parameters_and_names())[one].numpy()
            norm = store.series(run, one, "weight/l2_norm").values[-1]
            np.testing.assert_allclose(norm, np.linalg.norm(values), rtol=1e-5)
        assert store.events(run, kind="monitor_fault") == ()
        told = [one.data["sites"] for one in store.events(run, kind="modules_changed")]
        assert told == ([sites] if sites else [])
        infos = {one.site: one for one in store.structure(run).modules}
        assert set(infos) == set(here)
        assert all(one.order >= 0 for one in infos.values())
        assert {one.site for one in store.structure(run).parameters} == set(model.parameters_dict())


@pytest.mark.parametrize("capture_mode", ["trace", "ast", "bytecode"])
@pytest.mark.parametrize("name", ["a cell joins", "a cell is exchanged"])
def test_a_compiled_step_shows_what_joins_later_as_well(name, capture_mode):
    change, (site,), _ = CHANGES[name]
    with open_store("memory:") as store:
        losses, _ = trained(change, compiled(capture_mode), store)
        assert losses == trained(change, compiled(capture_mode))[0]
        run = store.find_run("latest").id
        for metric in ("activation/std", "activation_grad/l2_norm"):
            assert store.series(run, site, metric).steps.tolist()[-(STEPS - AT - 1) :] == list(range(AT + 1, STEPS))
        assert store.events(run, kind="monitor_fault") == ()


def test_a_model_that_stays_as_it_is_is_not_looked_at_again(monkeypatch):
    from mindscope.probe.adapters.engine.engine_sites import CellSites

    looks = []
    monkeypatch.setattr(CellSites, "look", lambda self, look=CellSites.look: looks.append(1) or look(self))
    with open_store("memory:") as store:
        trained(lambda _: None, eager_step, store)
    assert len(looks) == 1
