"""Single numbers of a model: their scales, in which order they stand, and what is drawn of them."""

import math

import pytest
from mindscope.dashboard.pages.robustness.gauges import GaugeScale, gauge_groups, gauges_table
from mindscope.storage import Outcome

from .evaluated import metrics


def spans(part, kind):
    return [one for one in part._traverse() if getattr(one, "className", None) == kind]


def test_each_measurement_stands_under_its_name_with_what_it_was_measured_of():
    assert [one.title for one in gauge_groups(metrics()[::-1])] == [
        "CLEVER in l2, 20 samples",
        "Empirical robustness in l2, 20 samples",
        "Defence quality, 256 samples",
        "Query defence in linf, 256 samples, against attacks of epsilon 0.1",
        "Detector feature squeezing in linf, 256 samples, against attacks of epsilon 0.1",
    ]


def test_every_number_of_a_measurement_is_shown_and_says_what_is_good():
    numbers = [one for part in gauge_groups(metrics()) for one in part.gauges]
    assert [one.scale.words(one.value) for one in numbers] == [
        "1", "4.3%",
        "-3%", "1%", "4%", "8%", "0.02 nats",
        "+12%", "+50%", "4%", "+150%",
        "80%", "6%", "0.93",
    ]  # fmt: skip
    assert all(one.good.startswith(("High: ", "Low: ", "Above 0: ")) for one in numbers)
    assert "set for 5% of others" in numbers[-2].good


def test_what_is_mended_and_spoiled_lies_on_the_scale_of_what_they_add_up_to():
    accuracy, mended, spoiled, *_ = gauge_groups([metrics()[2]])[0].gauges
    assert accuracy.scale.ends == mended.scale.ends == ("-10%", "+10%")
    middle = accuracy.scale.position(0.0)
    apart = [one.scale.position(one.value) - middle for one in (accuracy, mended, spoiled)]
    assert apart[0] == pytest.approx(apart[1] - apart[2])


def test_a_value_beyond_its_scale_stands_at_its_end_and_none_is_nowhere():
    scale = GaugeScale(0.0, 2.0)
    assert [scale.position(value) for value in (-1.0, 1.0, 5.0, math.nan)] == [0.0, 0.5, 1.0, None]
    assert GaugeScale().position(1.0) is None


def test_the_dot_of_a_distance_stands_in_the_ball_that_was_searched():
    table = gauges_table(gauge_groups(metrics()[:1]))
    assert [one.style["left"] for one in spans(table, "gauge-dot")] == ["50.00%"]
    assert {one.title: one.style["left"] for one in spans(table, "gauge-beside")} == {
        "least": "25.00%",
        "mean": "75.00%",
    }


def test_a_measurement_of_an_unknown_name_shows_its_numbers_without_a_scale():
    (found,) = gauge_groups(
        [Outcome("newer", "", 0.0, math.nan, 3, details={"kind": "metric", "some_share": 0.25, "by": "x"})]
    )
    assert [(one.name, one.value) for one in found.gauges] == [("Some share", 0.25)]
    table = gauges_table([found])
    assert spans(table, "gauge") == []


@pytest.mark.parametrize("name", ["clever", "empirical robustness", "defence quality", "query defence", "detector x"])
def test_what_a_store_does_not_say_is_a_dash_and_has_no_dot(name):
    table = gauges_table(
        gauge_groups([Outcome(name, "l2", 1.0, math.nan, 3, details={"kind": "metric", "value": None})])
    )
    assert spans(table, "gauge-dot") == []
    assert "–" in str(table)
