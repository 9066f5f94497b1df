"""A compiled step is watched like an eager one, stays compiled, and computes the same bits as without a monitor."""

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, ops, value_and_grad
from mindscope.framework.compiler import jit
from mindscope.framework.optim import Adam
from mindscope.probe import watch
from mindscope.storage import open_store

MODES = ["gradients", "whole step, trace", "whole step, ast", "whole step, bytecode"]


class Block(nn.Cell):
    """A layer that is called twice, and norms."""

    def __init__(self):
        super().__init__()
        self.first = nn.Dense(6, 8, key=Key(1))
        self.shared = nn.Dense(8, 8, key=Key(3))
        self.norm = nn.LayerNorm(8)
        self.head = nn.Dense(8, 3, key=Key(2))

    def construct(self, x):
        x = ops.gelu(self.first(x))
        x = self.norm(x + ops.relu(self.shared(ops.relu(self.shared(x)))))
        return self.head(x)


def training(mode):
    """A step function and what it trains."""
    net = Block().set_train()
    optimizer = Adam(net.trainable_params(), 1e-2)
    x = Tensor(np.random.default_rng(0).standard_normal((16, 6)).astype(np.float32))
    y = Tensor(np.arange(16) % 3)
    gradients_of = value_and_grad(lambda x, y: ops.cross_entropy(net(x), y), None, net.trainable_params())
    if mode == "gradients":
        gradients_of = jit(gradients_of, capture_mode="trace")

    def step(x, y):
        loss, gradients = gradients_of(x, y)
        optimizer(gradients)
        return loss

    if mode.startswith("whole step"):
        step = jit(step, capture_mode=mode.rpartition(" ")[2])
    return net, optimizer, lambda: step(x, y).numpy().tobytes()


def recorded(mode, steps=4):
    """Losses, and all values of a watched training by their addresses."""
    net, optimizer, step = training(mode)
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store) as monitor:
            losses = [step() for _ in range(steps)]
        values = {}
        for record in store.replay(monitor.run.id):
            values[record.step, "loss"] = record.scalars["loss"]
            for block in record.blocks:
                calls = block.layout.calls or (0,) * len(block.layout.sites)
                assert block.present is None or block.present.all()
                for site, call, row in zip(block.layout.sites, calls, block.values, strict=True):
                    values[record.step, block.layout.subject, site, call] = row
        return losses, values


@pytest.mark.parametrize("mode", MODES)
def test_a_compiled_step_records_what_an_eager_one_does(mode):
    _, eager = recorded("eager")
    losses, compiled = recorded(mode)
    assert compiled.keys() == eager.keys()
    assert (0, "activation_grad", "shared", 1) in compiled
    for address, values in eager.items():
        np.testing.assert_allclose(compiled[address], values, rtol=2e-4, atol=1e-6, err_msg=str(address))
    _, _, step = training(mode)
    assert [step() for _ in range(4)] == losses  # bit for bit


def test_forty_monitors_one_after_the_other_leave_no_trace():
    net, optimizer, step = training("whole step, trace")
    plain = training("whole step, trace")[2]
    with open_store("memory:") as store:
        for _ in range(40):
            with watch(net, optimizer, store=store):
                assert step() == plain()
            assert step() == plain()
    from mindscope.framework.compiler.observers import OBSERVERS

    assert not OBSERVERS
    assert all(cell._cell_hooks is None or not cell._cell_hooks.forward for _, cell in net.cells_and_names())
