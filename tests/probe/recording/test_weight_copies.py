"""The copy of the weights is there only around steps at which updates are due, and what is measured by it is exact."""

from pathlib import Path

import numpy as np
import pytest
from mindscope import open_store, watch
from mindscope.probe.collectors.array_copies import CopiedArrays

torch = pytest.importorskip("torch")

EVERY, SIZE = 4, 2400  # 23 MB of weights


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The store, the bytes held after each step, and the true norm of each update."""
    store = tmp_path_factory.mktemp("runs")
    torch.manual_seed(0)
    model = torch.nn.Linear(SIZE, SIZE, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    monitor = watch(model, optimizer, store=store, config={"subjects": {"update": EVERY}, "checks": False})
    held, norms = [], []
    for _ in range(2 * EVERY + 1):
        before = model.weight.detach().clone()
        optimizer.zero_grad()
        model(torch.ones(1, SIZE)).pow(2).mean().backward()
        optimizer.step()
        norms.append(float((model.weight.detach() - before).double().norm()))
        held.append(monitor._recorder.due.held_bytes)
    monitor.close()
    return store, held, norms


def test_the_copy_is_given_back_while_no_update_is_due(trained):
    _, held, _ = trained
    assert held == [0] * len(held)


def test_updates_by_copies_that_were_taken_anew_are_exact(trained):
    store, _, norms = trained
    with open_store(store) as opened:
        series = opened.series(opened.runs(limit=1)[0].id, "weight", "update/l2_norm")
    assert series.steps.tolist() == [0, EVERY, 2 * EVERY]
    np.testing.assert_allclose(series.values, [norms[step] for step in series.steps], rtol=1e-6)


def test_the_copy_stays_while_every_step_is_due(tmp_path):
    model = torch.nn.Linear(SIZE, SIZE, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with watch(model, optimizer, store=tmp_path, config={"checks": False}) as monitor:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(1, SIZE)).pow(2).mean().backward()
            optimizer.step()
            assert monitor._recorder.due.held_bytes == model.weight.nbytes


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell its memory")
def test_what_copies_held_goes_back_to_the_system():
    array = np.ones(100_000_000, np.uint8)
    before = resident()
    copies = CopiedArrays([array.nbytes])
    copies.take([0], np.array([array.ctypes.data]))
    assert resident() > before + 0.9 * array.nbytes
    del copies
    assert resident() < before + 0.1 * array.nbytes


def test_copies_of_small_arrays_lie_apart():
    arrays = [np.arange(size, dtype=np.uint8) for size in (3, 0, 70, 1)]
    copies = CopiedArrays([array.nbytes for array in arrays])
    copies.take(range(4), np.array([array.ctypes.data for array in arrays]))
    gaps = np.diff(copies.addresses) - [array.nbytes for array in arrays[:3]]
    assert (gaps >= 0).all()
    assert CopiedArrays().nbytes == 0
