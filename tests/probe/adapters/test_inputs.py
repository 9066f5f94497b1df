"""Inputs are recorded as they came, whatever they are nested in, with their gradients; off unless asked for."""

from dataclasses import dataclass

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.framework.optim import SGD
from mindscope.probe import watch
from mindscope.storage import open_store

CONFIG = {"subjects": ["input", "input_grad", "activation", "activation_grad", "gradient", "gradient_norm"]}


def values(store, run):
    """(subject, site, call) -> the row of the last step."""
    *_, record = store.replay(run)
    found = {}
    for block in record.blocks:
        calls = block.layout.calls or (0,) * len(block.layout.sites)
        for row, (site, call) in enumerate(zip(block.layout.sites, calls, strict=True)):
            if block.present is None or block.present[row]:
                found[block.layout.subject, site, call] = block.values[row]
    return found, record


def test_an_engine_cell_is_seen_from_both_sides():
    net = nn.SequentialCell(nn.Dense(4, 5, key=Key(1)), nn.ReLU(), nn.Dense(5, 2, key=Key(2))).set_train()
    optimizer = SGD(net.trainable_params(), learning_rate=0.1)
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store, config=CONFIG) as monitor:
            net(Tensor(x)).sum().backward()
            optimizer.step()
        found, record = values(store, monitor.run.id)
    assert found["input", "0", 0][0] == pytest.approx(np.linalg.norm(x), rel=1e-6)
    assert found["input", "", 0][0] == found["input", "0", 0][0]
    np.testing.assert_array_equal(found["input", "2", 0], found["activation", "1", 0])
    np.testing.assert_array_equal(found["input_grad", "2", 0], found["activation_grad", "1", 0])
    assert ("input_grad", "0", 0) not in found  # nobody asked for the gradient of the batch
    norms = [row[0] for (subject, _, _), row in found.items() if subject == "gradient"]
    assert record.scalars["gradient_norm"] == pytest.approx(np.sqrt(np.square(norms).sum()))


torch = pytest.importorskip("torch", reason="PyTorch is not installed")


@dataclass
class Batch:
    """Inputs in a dataclass."""

    left: object
    right: object


class Nested(torch.nn.Module):
    """Takes whatever it is given, in place."""

    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        batch = Batch(x * self.weight, [x.clone(), {"deep": x + 1.0}])
        return self.inner(batch, scale=x.mean(), count=torch.tensor([1, 2]))


class Inner(torch.nn.Module):
    """Changes its inputs after it was called."""

    def forward(self, batch, scale, count):
        batch.right[0].mul_(100.0)
        return batch.left.sum() * scale + batch.right[1]["deep"].sum()


def test_torch_inputs_of_every_nesting_and_by_keyword_are_read_before_they_change():
    net = Nested()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    x = torch.tensor([1.0, 2.0, 2.0])
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store, config=CONFIG) as monitor:
            net(x.clone()).backward()
            optimizer.step()
        found, _ = values(store, monitor.run.id)
    inputs = {site: row for (subject, site, _), row in found.items() if subject == "input"}
    assert set(inputs) == {"", "inner", "inner[0][right][0]", "inner[0][right][1][deep]", "inner[scale]"}
    assert inputs["inner[0][right][0]"][0] == 3.0  # not 300: it was changed later
    assert inputs["inner[scale]"][1] == pytest.approx(5 / 3)
    assert ("input_grad", "inner", 0) in found


def test_nothing_is_recorded_of_inputs_unless_asked_for():
    net = Nested()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store) as monitor:
            net(torch.ones(3)).backward()
            optimizer.step()
        found, record = values(store, monitor.run.id)
    assert not any(subject.startswith("input") for subject, _, _ in found)
    assert record.scalars["memory/host_bytes"] > 1e6
    assert "gradient_norm" in record.scalars


def test_the_norm_of_a_gradient_that_is_not_finite_is_not():
    net = nn.Dense(2, 1, key=Key(0)).set_train()
    optimizer = SGD(net.trainable_params(), learning_rate=0.1)
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store) as monitor:
            ops.log(net(Tensor(np.ones((1, 2), np.float32))) * 0.0).sum().backward()
            optimizer.step()
        _, record = values(store, monitor.run.id)
    assert not np.isfinite(record.scalars["gradient_norm"])


def test_a_small_batch_may_follow_a_large_one_in_one_step():
    model = torch.nn.Linear(2, 1)
    with open_store("memory:") as store:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with watch(model, optimizer, store=store) as monitor:
            sum(model(torch.ones(rows, 2)).mean() for rows in (100_000, 3)).backward()
            optimizer.step()
        assert not store.events(monitor.run.id, kind="monitor_fault")
        assert store.series(monitor.run.id, "", "scalar/batch/samples").values.tolist()[-1] == 100_003
