"""Which tensor a page opens by itself."""

from dataclasses import replace

import numpy as np
from mindscope.dashboard.address import PageAddress
from mindscope.dashboard.headline import filled_address, metric_error
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import Block, Finding, Layout, StepRecord, open_store

from tests.dashboard.recorded import BAD_SITE, BAD_STEP, Plan, findings, write_run

ANOMALY = next(one for one in findings() if one.rule == "non-finite-activation")


def opened(finding: Finding) -> PageAddress:
    """The place that the page of a run with this one finding opens."""
    with open_store("memory:") as store:
        run = write_run(store, "run", Plan(steps=20, goes_bad=False)).id
        store.write_findings(run, [finding])
        reader = Reader(store)
        return filled_address(reader, reader.find("run"), PageAddress("run", run="run"))


def test_the_first_anomaly_is_opened_on_the_norm_that_marks_it():
    here = opened(ANOMALY)
    assert (here.metric, here.site, here.step) == ("activation/l2_norm", BAD_SITE, BAD_STEP)


def spiked(steps: int, first_step: int) -> PageAddress:
    """The place that opens when the whole model is said to be wrong and one of four layers jumped at step 30."""
    layout = Layout("gradient", ("a", "b", "c", "d"), ("l2_norm",), ("float32",))
    noise = np.exp(np.random.default_rng(0).normal(0, 0.01, (steps, 4)))
    noise[30, 2] = 50.0
    records = [
        StepRecord(step, float(step), blocks=(Block(layout, row[:, None]),), scalars={"loss": 1.0})
        for step, row in enumerate(noise)
    ]
    with open_store("memory:") as store:
        writer = store.begin_run("run")
        writer.write(records)
        writer.close()
        store.write_findings(writer.run.id, [replace(ANOMALY, site="", metric="scalar/loss", first_step=first_step)])
        reader = Reader(store)
        return filled_address(reader, reader.find("run"), PageAddress("run", run="run"))


def test_a_finding_about_the_whole_model_opens_the_tensor_that_departed_most_at_that_step():
    here = spiked(steps=40, first_step=30)
    assert (here.metric, here.site, here.step) == ("gradient/l2_norm", "c", 30)


def test_an_update_shows_one_step_later():
    assert spiked(steps=40, first_step=29).site == "c"


def test_without_a_history_no_tensor_is_singled_out():
    assert spiked(steps=31, first_step=0).site is None


def test_a_word_that_is_no_metric_is_told_and_a_metric_or_scalar_is_not():
    assert metric_error("activation/l2_norm") == metric_error("scalar/loss") == ""
    assert "must read 'subject/statistic'" in metric_error("nonsense")
    assert metric_error("") != ""
