"""A model may be attacked in the middle of its watched training: the training and its records do not notice."""

import mindscope as ms
import numpy as np
import pytest
from mindscope.armour import PGD, evaluate
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.storage import MemoryStore

STEPS = 6
GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.uniform(0, 1, (STEPS, 32, 12)).astype(np.float32)
LABELS = GENERATOR.integers(0, 4, (STEPS, 32))
BY_THE_CLOCK = ("scalar/step_seconds", "scalar/time/", "scalar/throughput/", "scalar/memory/")


def engine():
    """A network of the engine, and what makes a step of its training."""
    network = nn.SequentialCell(nn.Dense(12, 16, key=Key(0)), nn.ReLU(), nn.Dense(16, 4, key=Key(1))).set_train()
    optimizer = nn.Adam(network.trainable_params(), learning_rate=0.05)

    def step(x, y):
        optimizer.zero_grad()
        loss = ops.cross_entropy(network(Tensor(x)), Tensor(y))
        loss.backward()
        optimizer.step()

    return network, optimizer, step


def torch_module():
    """The same in torch."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)

    def step(x, y):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        optimizer.step()

    return network, optimizer, step


def recorded(make, attack):
    """Every series of a watched training that no clock and no allocator makes, and its findings."""
    network, optimizer, step = make()
    store = MemoryStore()
    with ms.watch(network, optimizer, store=store, run="training") as monitor:
        for number, (x, y) in enumerate(zip(INPUTS, LABELS, strict=True)):
            step(x, y)
            if attack and number % 2:
                with pytest.warns(UserWarning, match="modules in training mode"):
                    evaluate(network, x, y, [0.1], attacks=[PGD(steps=3)], store=store, parent="training")
    run = monitor.run.id
    names = [name for name in store.metrics(run) if not name.startswith(BY_THE_CLOCK)]
    matrices = {name: store.matrix(run, name) for name in names}
    return matrices, [(finding.rule, finding.step, finding.site) for finding in store.findings(run)], store


@pytest.mark.parametrize("make", [engine, torch_module], ids=["engine", "torch"])
def test_an_evaluation_leaves_no_trace_in_the_training(make):
    (alone, findings, _), (attacked, same_findings, store) = recorded(make, False), recorded(make, True)
    assert len(alone) > 20
    assert list(alone) == list(attacked)
    for name, matrix in alone.items():
        assert matrix.sites == attacked[name].sites
        np.testing.assert_array_equal(matrix.high, attacked[name].high, err_msg=name)
        np.testing.assert_array_equal(matrix.present, attacked[name].present, err_msg=name)
    assert findings == same_findings
    assert [run.kind for run in store.runs()].count("evaluation") == STEPS // 2
