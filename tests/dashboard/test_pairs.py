"""Two runs side by side: their difference, and where it first is too large."""

import dataclasses
import math

import numpy as np
import pytest
from mindscope.dashboard.queries.comparison_queries import (
    common_metrics,
    comparison,
    difference_matrix,
    first_difference,
)
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import open_store

from .recorded import Plan, records, structure_of, write_run

PLAN = Plan(steps=60, goes_bad=False, spike_at=None)
CHANGED_AT, CHANGED = 40, "decoder.1.attn.v_proj"


def changed(plan):
    """The records of the plan, one layer's norm a tenth larger from one step on, and once NaN."""
    for record in records(plan):
        if record.step >= CHANGED_AT:
            block = record.blocks[0]
            values = block.values.copy()
            row = block.layout.sites.index(CHANGED)
            values[row, 0] = math.nan if record.step == 50 else values[row, 0] * 1.1
            record = dataclasses.replace(record, blocks=(dataclasses.replace(block, values=values), *record.blocks[1:]))
        yield record


@pytest.fixture(scope="module")
def pair():
    with open_store("memory:") as store:
        first = write_run(store, "first", PLAN)
        writer = store.begin_run("second", tags={"lr": 1.0})
        writer.write_structure(structure_of(PLAN))
        writer.write(list(changed(PLAN)))
        writer.close()
        reader = Reader(store)
        yield reader, reader.find(first.id), reader.find("second")


def test_the_comparison_finds_the_layer_and_the_step(pair):
    found = comparison(*pair)
    assert found.verdict == "diverged"
    assert found.first is not None
    assert (found.first.step, found.first.site) == (CHANGED_AT, CHANGED)
    assert {(one.area, one.name) for one in found.differences} >= {("tags", "lr")}


def test_a_run_is_identical_to_itself(pair):
    reader, first, _ = pair
    assert comparison(reader, first, first).verdict == "identical"
    assert first_difference(difference_matrix(reader, first, first, "activation/l2_norm"), 0.0) is None


def test_the_difference_is_relative_to_the_larger_and_nan_in_one_is_told(pair):
    apart = difference_matrix(*pair, "activation/l2_norm")
    row = apart.sites.index(CHANGED)
    assert np.all(apart.high[:, :CHANGED_AT] == 0)
    assert apart.high[row, CHANGED_AT:50] == pytest.approx(0.1 / 1.1, rel=1e-5)
    assert list(zip(*np.nonzero(apart.non_finite), strict=True)) == [(row, 50)]


def test_a_tolerance_passes_over_what_is_smaller(pair):
    apart = difference_matrix(*pair, "activation/l2_norm")
    near, far = first_difference(apart, 0.01), first_difference(apart, 0.2)
    assert near is not None
    assert far is not None
    assert (near.step, near.site) == (CHANGED_AT, CHANGED)
    assert (far.step, far.site, far.difference) == (50, CHANGED, math.inf)


def test_what_both_have_can_be_chosen_scalars_first(pair):
    names = common_metrics(*pair)
    assert names[0] == "scalar/learning_rate"
    assert "activation/l2_norm" in names
