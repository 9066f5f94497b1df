"""What one metric said about each module at one step."""

import math

import numpy as np
from mindscope.dashboard.queries.model_queries import by_module, values_at
from mindscope.storage import ModuleInfo

from .recorded import BAD_SITE, BAD_STEP


def test_values_at_a_step_are_those_that_were_recorded(reader, recorded_store, bad_run):
    found = values_at(reader, bad_run.id, "activation/l2_norm", 77)
    for site in ("embed", "decoder.3.mlp.down", ""):
        recorded = recorded_store.series(bad_run.id, site, "activation/l2_norm", first=77, last=77)
        assert found[site] == recorded.values[0]


def test_a_spike_is_the_largest_deviation_at_its_step_and_not_before(reader, bad_run):
    spiked = values_at(reader, bad_run.id, "activation/l2_norm", 90, deviations=True)
    quiet = values_at(reader, bad_run.id, "activation/l2_norm", 89, deviations=True)
    assert spiked["decoder.1.mlp.up"] > 20
    assert max(map(abs, quiet.values())) < 12


def test_a_step_past_the_end_shows_the_last_and_an_unknown_metric_nothing(reader, bad_run):
    last = values_at(reader, bad_run.id, "activation/l2_norm", bad_run.last_step)
    assert values_at(reader, bad_run.id, "activation/l2_norm", 10**9) == last
    assert values_at(reader, bad_run.id, "activation/nothing", BAD_STEP) == {}


def test_a_module_takes_the_most_extreme_of_its_parameters_and_parts():
    infos = [ModuleInfo(site, "Dense") for site in ("block", "block.fc", "other")]
    values = {"block.fc.weight": -3.0, "block.fc.bias": 2.0, "other.weight": math.nan, "other.bias": 5.0}
    found = by_module(infos, values)
    assert (found["block"], found["block.fc"]) == (-3.0, -3.0)
    assert np.isnan(found["other"])
    assert by_module(infos, {"block": 1.0, "block.fc": 9.0}) == {"block": 1.0, "block.fc": 9.0}


def test_a_module_of_a_bad_run_is_known_by_its_findings_name(reader, bad_run):
    assert BAD_SITE in values_at(reader, bad_run.id, "activation/nans", BAD_STEP)
