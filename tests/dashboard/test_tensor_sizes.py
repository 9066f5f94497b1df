"""A smaller last batch makes no layer look unusual."""

import numpy as np
import pytest
from mindscope.dashboard.queries.reader import Reader
from mindscope.dashboard.queries.tensor_sizes import divided_by_size
from mindscope.dashboard.run_figures import run_heatmap_data
from mindscope.storage import Block, Layout, StepRecord, open_store

from ..matrices import matrix_of

STEPS, EPOCH = 60, 10
LAYOUT = Layout("activation", ("a", "b"), ("l2_norm", "zeros", "mean", "size"), ("float64",) * 4)


@pytest.fixture(scope="module")
def reader():
    """Every tenth batch has 8 samples, and not 128; at step 55 layer `b` really is ten times as large."""
    random = np.random.default_rng(0)
    with open_store("memory:") as store:
        writer = store.begin_run("epochs")
        for step in range(STEPS):
            size = 64 * (8 if step % EPOCH == EPOCH - 1 else 128)
            noise = np.exp(random.normal(0, 0.02, (2, 1)))
            scale = noise * np.array([[1.0], [10.0 if step == 55 else 1.0]])
            values = np.hstack([scale * np.sqrt(size), noise * size / 4, scale, np.full((2, 1), size)])
            writer.write([StepRecord(step, float(step), blocks=(Block(LAYOUT, values),))])
        writer.close()
        yield Reader(store)


@pytest.mark.parametrize("statistic", ["l2_norm", "zeros"])
def test_statistics_that_grow_with_the_size_are_compared_at_equal_size(reader, statistic):
    run = reader.find("epochs").id
    _, heat = run_heatmap_data(reader, run, f"activation/{statistic}", "deviation")
    z = np.abs(np.nan_to_num(heat.z))
    bad = z[1, 55]
    z[1, 55] = 0
    assert z.max() < 5
    assert bad > 12 or statistic == "zeros"
    assert heat.note.startswith("at equal tensor size; ")
    np.testing.assert_allclose(heat.low, reader.matrix(run, f"activation/{statistic}").low)  # what is told is what was


def test_a_statistic_of_the_elements_is_left_as_it_is(reader):
    run = reader.find("epochs").id
    matrix, heat = run_heatmap_data(reader, run, "activation/mean", "deviation")
    np.testing.assert_array_equal(matrix.low, reader.matrix(run, "activation/mean").low)
    assert "equal tensor size" not in heat.note


def test_sizes_of_other_tensors_change_nothing():
    matrix = matrix_of(np.ones((2, 4)))
    assert divided_by_size(matrix, matrix_of(np.ones((3, 4))), 0.5) is matrix


def test_a_row_without_a_size_is_left_as_it_is():
    sizes = matrix_of([[4.0, 1.0, 4.0], [np.nan] * 3])
    found = divided_by_size(matrix_of(np.full((2, 3), 6.0)), sizes, 0.5)
    np.testing.assert_allclose(found.low, [[6, 12, 6], [6, 6, 6]])
