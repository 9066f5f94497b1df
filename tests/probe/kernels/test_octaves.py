"""Histograms over octaves against a slow count by their own edges, and by hand."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mindscope.framework import Key, Tensor, nn
from mindscope.probe import watch
from mindscope.probe.kernels import Bins
from mindscope.probe.kernels.array_table import readable
from mindscope.probe.kernels.histogram_bins import count_octaves, octaves_between
from mindscope.storage import open_store

BINS = 64


def octaves(array, bins=BINS):
    finite = np.asarray(array, np.float64)
    finite = finite[np.isfinite(finite)]
    ends = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    edges, top = octaves_between(*ends, bins)
    counts = np.zeros(bins, np.int64)
    data, code = readable(np.asarray(array))
    count_octaves(data.ctypes.data, data.size, code, top, counts)
    return edges, counts


def slowly(array, edges):
    """Every finite value by looking through the edges, farther from zero first."""
    counts = np.zeros(len(edges) - 1, np.int64)
    half = len(counts) // 2
    for value in np.asarray(array, np.float64).ravel():
        if np.isfinite(value):
            bins = range(half) if value < 0 else range(len(counts) - 1, half - 1, -1)
            counts[next(bin for bin in bins if edges[bin] <= value <= edges[bin + 1])] += 1
    return counts


@settings(deadline=None)  # the first call compiles
@example(np.array([5e-324, -1e-310, 0.0]))
@example(np.array([1.7e308, -1.0]))
@given(arrays(np.float64, st.integers(0, 40), elements=st.floats(width=64)))
def test_any_array_is_counted_as_by_its_edges(array):
    edges, counts = octaves(array)
    assert counts.tolist() == slowly(array, edges).tolist()
    assert counts.sum() == np.isfinite(array).sum()
    assert (np.diff(edges) > 0).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_every_dtype_is_counted_alike(dtype):
    array = (np.random.default_rng(0).normal(size=500) * 1e-3).astype(dtype)
    edges, counts = octaves(array)
    assert counts.tolist() == slowly(array, edges).tolist()


def test_edges_halve_towards_zero_and_a_power_of_two_is_one_of_them():
    edges, _ = octaves([-3.0, 1.0], bins=8)
    assert edges.tolist() == [-4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0]
    edges, counts = octaves([2.0, 2.0, -2.0, 0.0, 1e-30], bins=4)
    assert edges.tolist() == [-2.0, -1.0, 0.0, 1.0, 2.0]
    assert counts.tolist() == [1, 0, 2, 2]


def test_a_device_counts_octaves_as_the_processor_does():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from mindscope.probe.kernels.device.device_statistics import count_on_device
    from mindscope.probe.kernels.device.measuring import measure_plainly

    rng = np.random.default_rng(1)
    for array in (
        rng.normal(size=300) * 10.0 ** rng.integers(-12, 3, 300),
        np.zeros(4),
        np.array([np.nan, np.inf, -2.0]),
    ):
        tensor = torch.from_numpy(array)
        counted = count_on_device(tensor, measure_plainly([tensor])[0], Bins(BINS, is_logarithmic=True))
        assert counted.tolist() == octaves(array)[1].tolist()


def test_of_nothing_there_are_edges_and_no_counts():
    edges, counts = octaves([np.nan, np.inf])
    assert (np.diff(edges) > 0).all()
    assert not counts.any()


def test_a_run_has_them_where_they_are_asked_for():
    net = nn.SequentialCell(nn.Dense(5, 4, key=Key(0))).set_train()
    weight = net.trainable_params()[0].numpy().copy()
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    with open_store("memory:") as store:
        config = {"histograms": {"every": 1, "subjects": ["weight", "activation"], "scale": "log"}}
        with watch(net, optimizer, store=store, config=config) as monitor:
            net(Tensor(np.ones((3, 5), np.float32))).sum().backward()
            optimizer.step()
        ((_, found),) = store.histograms(monitor.run.id, "0.weight", "weight")
        assert store.histograms(monitor.run.id, "0", "activation")[0][1].counts.sum() == 12
    edges, counts = octaves(weight)
    assert found.edges.tolist() == edges.tolist()
    assert found.counts.tolist() == counts.tolist()
