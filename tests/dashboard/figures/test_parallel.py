"""Parallel coordinates: where a run's line stands on every axis."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.dashboard.pages.lineage.lineage_figures import parallel_axis, parallel_figure, run_groups
from mindscope.dashboard.theme import DARK, LIGHT


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20, unique=True))
def test_numbers_keep_their_order_from_the_bottom_to_the_top(values):
    places = parallel_axis("lr", values).positions
    assert min(places) == 0.0
    assert max(places) == pytest.approx(1.0)
    pairs = sorted(zip(values, places, strict=True))
    assert all(low[1] <= high[1] for low, high in pairwise(pairs))


def test_a_wide_range_of_positive_numbers_is_logarithmic_and_a_narrow_one_is_not():
    assert parallel_axis("lr", [1e-3, 1e-2, 1e-1]).positions == pytest.approx((0.0, 0.5, 1.0))
    assert parallel_axis("layers", [2, 4, 12]).positions == pytest.approx((0.0, 0.2, 1.0))


def test_words_stand_evenly_and_what_a_run_lacks_is_a_gap():
    scale = parallel_axis("model", ["vit", None, "cnn", "mlp"])
    assert scale.positions == (1.0, None, 0.0, 0.5)
    assert [label for _, label in scale.ticks] == ["cnn", "mlp", "vit"]
    assert parallel_axis("flag", [True, False]).ticks[0][1] == "False"
    assert parallel_axis("same", ["a", "a"]).positions == (0.5, 0.5)
    assert parallel_axis("nothing", [None, None]).positions == (None, None)


def test_what_is_not_finite_stands_above_all_others_and_is_named():
    scale = parallel_axis("loss", [1.0, math.nan, 2.0, math.inf])
    assert scale.positions[1] == scale.positions[3] > 1.0
    assert scale.ticks[-1][1] == "not finite"


def test_runs_are_bundled_by_quarters_of_their_result_and_those_without_one_stand_apart():
    bundles = run_groups([4.0, math.nan, 1.0, 2.0, 3.0])
    assert [bundle.members for bundle in bundles] == [(2,), (3,), (4,), (0,), (1,)]
    assert bundles[-1].name == "no finite result"
    assert bundles[0].name == "1 to 1"
    assert [bundle.members for bundle in run_groups([math.nan])] == [(0,)]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_every_run_is_one_line_and_the_chosen_one_is_thick(palette):
    scales = [parallel_axis("lr", [1.0, 2.0, 3.0]), parallel_axis("loss", [3.0, None, math.nan])]
    bundles = run_groups([3.0, math.nan, math.nan])
    figure = parallel_figure(scales, bundles, ["a", "b", "c"], palette, chosen=1)
    assert list(figure.data[0].x) == [0, 1, None]
    assert list(figure.data[0].y) == [0.0, 0.5, None]
    assert list(figure.data[1].text) == ["b"] * 3 + ["c"] * 3
    assert figure.data[1].line.color == palette.non_finite
    assert (figure.data[2].name, figure.data[2].line.width) == ("b", 3.5)
    assert list(figure.layout.xaxis.ticktext) == ["lr", "loss"]
    assert len(figure.layout.shapes) == 2
