"""Pictures of time and memory."""

import math
from dataclasses import replace

import numpy as np
from mindscope.dashboard.pages.profile.profile_figures import (
    inside_figure,
    memory_figure,
    parts_figure,
    split_figure,
)
from mindscope.dashboard.theme import DARK, LIGHT
from mindscope.insight.profile import MemoryPart, MemoryUse, Profiled

NONE = np.array([np.nan, np.nan])


def test_phases_are_stacked_from_the_bottom_up_over_the_steps_of_their_stretch():
    parts = {"other": np.array([0.1, 0.1]), "data": np.array([0.2, 0.3]), "forward": np.array([0.4, 0.5])}
    figure = split_figure([0, 10], [10, 25], parts, {}, NONE, LIGHT)
    assert [bar.name for bar in figure.data] == ["data", "forward", "other"]
    assert figure.layout.barmode == "stack"
    assert [list(bar.width) for bar in figure.data] == [[10, 15]] * 3
    assert list(figure.data[1].y) == [0.4, 0.5]
    assert len({bar.marker.pattern.shape for bar in figure.data}) == 3


def test_what_is_part_of_phases_and_the_longest_step_are_lines_and_gaps_stay_gaps():
    inside = {"monitor": np.array([0.01, np.nan]), "communication": np.array([0.1, 0.1])}
    figure = split_figure([0, 10], [10, 20], {"step": np.ones(2)}, inside, np.array([1.0, 9.0]), DARK)
    lines = {line.name: line for line in figure.data if line.type == "scatter"}
    assert set(lines) == {"of which communication", "of which monitor", "longest step"}
    assert list(lines["of which monitor"].y) == [0.01, None]
    assert list(lines["longest step"].y) == [1.0, 9.0]


def test_memory_that_was_not_recorded_is_no_line_and_the_peak_is_marked():
    use = MemoryUse(0, (0, 1, 2), (1.0, math.nan, 3.0), (math.nan,) * 3, 3.0, math.nan, 2, ())
    figure = memory_figure(use, LIGHT)
    assert [line.name for line in figure.data] == ["host"]
    assert list(figure.data[0].y) == [1.0, None, 3.0]
    assert figure.layout.shapes[0].x0 == 2
    assert "step 2" in figure.layout.annotations[0].text
    watched = memory_figure(replace(use, monitor_bytes=(0.5, math.nan, 1.0)), LIGHT)
    assert [line.name for line in watched.data] == ["host", "of the host, the monitor"]


def test_sizes_that_follow_from_shapes_are_told_from_those_that_were_measured():
    parts = (MemoryPart("activations", "decoder.0", 400.0, True), MemoryPart("parameters", "", 100.0, False))
    (bar,) = parts_figure(parts, LIGHT).data
    assert list(bar.x) == [400.0, 100.0]
    assert list(bar.text) == ["measured", "from shapes"]
    assert list(bar.marker.pattern.shape) == ["", "/"]


def test_the_course_inside_of_a_step_is_in_milliseconds():
    looked = Profiled(3, 0.0, 0.1, (), 0, ((0.01, 800), (0.02, 1000), (0.05, 0)), 1000, ())
    (line,) = inside_figure(looked, DARK).data
    assert list(line.x) == [10.0, 20.0, 50.0]
    assert list(line.y) == [800, 1000, 0]
