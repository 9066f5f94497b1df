"""Histograms over time on common edges."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from mindscope.dashboard.figures.histogram_figures import distribution_figure, distribution_of
from mindscope.dashboard.theme import LIGHT
from mindscope.storage import Histogram


def histogram(edges, counts) -> Histogram:
    return Histogram("head", "weight", np.array(edges, np.float64), np.array(counts, np.int64))


def test_histograms_of_the_same_edges_are_only_divided_by_their_elements():
    found = distribution_of([(0, histogram([0, 1, 2], [1, 3])), (5, histogram([0, 1, 2], [0, 8]))])
    assert found.steps == (0, 5)
    assert found.edges.tolist() == [0, 1, 2]
    assert found.shares.tolist() == [[0.25, 0.0], [0.75, 1.0]]


@given(
    st.lists(
        st.tuples(st.floats(-50, 50), st.floats(0.1, 20), st.lists(st.integers(0, 9), min_size=2, max_size=6)),
        min_size=1,
        max_size=4,
    )
)
def test_no_element_is_lost_on_common_edges(plans):
    recorded = [
        (step, histogram(np.linspace(start, start + width, len(counts) + 1), counts))
        for step, (start, width, counts) in enumerate(plans)
    ]
    found = distribution_of(recorded)
    for column, (_, one) in enumerate(recorded):
        total = found.shares[:, column].sum()
        assert math.isclose(total, 1.0, abs_tol=1e-9) if one.counts.sum() else math.isnan(total)


def test_a_bin_is_spread_evenly_over_the_rows_that_it_covers():
    found = distribution_of([(0, histogram([0, 8], [4])), (1, histogram([0, 4, 8], [4, 0]))])
    np.testing.assert_allclose(found.shares[:, 0], 1 / 80)
    np.testing.assert_allclose(found.shares[:40, 1], 1 / 40)
    assert found.shares[40:, 1].sum() == 0


def test_what_lies_beyond_the_last_edge_is_in_the_outermost_rows():
    found = distribution_of([(0, histogram([-math.inf, 0, 1, math.inf], [2, 5, 3]))])
    assert found.edges.tolist() == [-1, 0, 1, 2]
    np.testing.assert_allclose(found.shares[:, 0], [0.2, 0.5, 0.3])


def test_empty_bins_have_no_colour_and_the_scale_is_logarithmic():
    found = distribution_of([(3, histogram([0, 1, 2, 3], [90, 10, 0]))])
    (heat,) = distribution_figure(found, [3], LIGHT, title="step").data
    np.testing.assert_allclose(heat.z[:2, 0], np.log10([0.9, 0.1]), rtol=1e-6)
    assert np.isnan(heat.z[2, 0])


def test_a_tensor_without_elements_can_be_drawn():
    found = distribution_of([(3, histogram([0, 1], [0]))])
    assert np.isnan(distribution_figure(found, [3], LIGHT, title="step").data[0].z).all()


def octaves(top, number):
    positive = 2.0 ** np.arange(top - number + 1, top + 1)
    return np.concatenate([-positive[::-1], [0.0], positive])


def test_octaves_of_different_steps_are_laid_together_without_mixing_their_bins():
    small, large = octaves(-3, 10), octaves(0, 10)
    counts = np.arange(1, 21)
    found = distribution_of([(0, histogram(small, counts)), (1, histogram(large, counts))])
    assert set(small) | set(large) == set(found.edges)
    top = found.shares[found.edges[:-1] >= 2.0**-3, :]
    assert top[:, 0].sum() == 0
    np.testing.assert_allclose(top[:, 1].sum(), (18 + 19 + 20) / counts.sum())


def test_octaves_without_elements_at_any_step_become_one_row():
    counts = [1, 2] + [0] * 16 + [3, 4]
    found = distribution_of([(0, histogram(octaves(0, 10), counts)), (1, histogram(octaves(0, 10), counts))])
    assert found.edges.tolist() == [-1, -0.5, -0.25, 0.25, 0.5, 1]
    np.testing.assert_allclose(found.shares[:, 0], [0.1, 0.2, 0.0, 0.3, 0.4])


def test_bins_of_octaves_are_rows_of_the_same_height_named_by_their_range():
    figure = distribution_figure(distribution_of([(0, histogram(octaves(0, 8), [1] * 16))]), [0], LIGHT, title="step")
    assert figure.layout.yaxis.type == "category"
    assert figure.data[0].y[-1] == "0.5 to 1"
    assert list(figure.layout.xaxis.tickvals) == [0]
