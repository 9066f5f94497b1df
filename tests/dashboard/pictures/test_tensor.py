"""The pictures of one tensor, read from a store."""

from dataclasses import replace

import numpy as np
import pytest
from mindscope.dashboard.pages.tensor.tensor_figures import TensorView, band_of, curve_of, distribution_over_time
from mindscope.dashboard.queries.reader import Reader
from mindscope.dashboard.theme import LIGHT
from mindscope.storage import Block, Layout, StepRecord, open_store

from ..recorded import BAD_SITE, BAD_STEP

METRIC = "activation/l2_norm"


@pytest.fixture(scope="module")
def look(reader, bad_run):
    return TensorView(bad_run, BAD_SITE, METRIC)


def test_a_stretch_of_steps_is_read_again_in_detail(reader, look):
    whole, part = (curve_of(reader, replace(look, span=span), LIGHT) for span in (None, (100, 120)))
    assert part.data[0].x.tolist() == list(range(100, 121))
    assert len(whole.data[0].x) == 300


def test_the_finding_and_broken_elements_stand_on_the_curve(reader, look):
    names = {trace.name for trace in curve_of(reader, look, LIGHT).data}
    assert "findings" in names
    assert "gpt-nan: not on the axis" in names
    calm = curve_of(reader, replace(look, span=(0, BAD_STEP - 1)), LIGHT)
    assert len(calm.data) == 1


def test_time_is_an_axis_of_dates_and_an_axis_that_was_not_logged_is_none(reader, look):
    timed = curve_of(reader, replace(look, axis="time"), LIGHT)
    assert timed.data[0].x[0].startswith("2026-")
    assert curve_of(reader, replace(look, axis="epoch"), LIGHT) is None


def test_another_run_is_laid_over_and_one_that_is_gone_is_left_out(reader, look, healthy_run):
    figure = curve_of(reader, replace(look, others=(healthy_run.id, "gone")), LIGHT)
    assert [trace.name for trace in figure.data if trace.mode == "lines"] == ["gpt-nan", "gpt-healthy"]


def test_all_chosen_runs_are_drawn_and_ranks_that_are_not_are_counted():
    layout = Layout("activation", ("a",), ("l2_norm",), ("float64",))
    with open_store("memory:") as store:
        first = store.begin_run("many")
        writers = [first, *(store.begin_run("many", rank=rank, run_id=first.run.id) for rank in range(1, 40))]
        runs = [store.begin_run(f"run-{at}") for at in range(40)]
        for writer in (*writers, *runs):
            writer.write([StepRecord(step, float(step), blocks=(Block(layout, np.ones((1, 1))),)) for step in range(3)])
        reader = Reader(store)
        look = TensorView(reader.find("many"), "a", METRIC)
        overlaid = curve_of(reader, replace(look, others=tuple(run.run.id for run in runs)), LIGHT)
        ranks = curve_of(reader, replace(look, over="ranks"), LIGHT)
    assert len(overlaid.data) == 41
    assert len(ranks.data) == 37
    assert [note.text for note in ranks.layout.annotations] == ["3 more ranks are not drawn"]


def test_ranks_and_calls_are_laid_over():
    layout = Layout("activation", ("a", "a"), ("l2_norm",), ("float64",), calls=(0, 1))
    with open_store("memory:") as store:
        first = store.begin_run("many")
        second = store.begin_run("many", rank=1, run_id=first.run.id)
        for writer, factor in ((first, 1.0), (second, 10.0)):
            blocks = [Block(layout, np.array([[factor], [factor * 2]]))]
            writer.write([StepRecord(step, float(step), blocks=tuple(blocks)) for step in range(3)])
        reader = Reader(store)
        look = TensorView(reader.find("many"), "a", METRIC)
        ranks = curve_of(reader, replace(look, over="ranks"), LIGHT)
        calls = curve_of(reader, replace(look, over="calls"), LIGHT)
    assert [trace.y[0] for trace in ranks.data] == [1.0, 10.0]
    assert [trace.y[0] for trace in calls.data] == [1.0, 2.0]


def test_band_and_distribution_follow_the_stretch_and_are_none_where_nothing_was_recorded(reader, look):
    part = replace(look, span=(100, 140))
    assert len(band_of(reader, part, LIGHT).data) == 3
    assert distribution_over_time(reader, part, LIGHT).data[0].x == (100, 120, 140)
    elsewhere = replace(look, site="decoder.0.norm1.weight", metric="update/l2_norm")
    assert band_of(reader, elsewhere, LIGHT) is None
    assert distribution_over_time(reader, elsewhere, LIGHT) is None
