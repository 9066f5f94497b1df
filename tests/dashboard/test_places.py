"""Which tensor a page opens by itself."""

from dataclasses import replace

from mindscope.dashboard.address import Address
from mindscope.dashboard.data import Reader
from mindscope.dashboard.places import no_metric, place_of
from mindscope.storage import Finding, open_store

from tests.dashboard.recorded import BAD_SITE, BAD_STEP, Plan, findings, write_run

ANOMALY = next(one for one in findings() if one.rule == "non-finite-activation")


def opened(finding: Finding) -> Address:
    """The place that the page of a run with this one finding opens."""
    with open_store("memory:") as store:
        run = write_run(store, "run", Plan(steps=20, goes_bad=False)).id
        store.write_findings(run, [finding])
        reader = Reader(store)
        return place_of(reader, reader.find("run"), Address("run", run="run"))


def test_the_first_anomaly_is_opened_on_the_norm_that_marks_it():
    here = opened(ANOMALY)
    assert (here.metric, here.site, here.step) == ("activation/l2_norm", BAD_SITE, BAD_STEP)


def test_a_finding_about_the_whole_model_opens_its_metric_and_no_tensor():
    here = opened(replace(ANOMALY, site="", metric="gradient/l2_norm"))
    assert (here.metric, here.site, here.step) == ("gradient/l2_norm", None, BAD_STEP)


def test_a_word_that_is_no_metric_is_told_and_a_metric_or_scalar_is_not():
    assert no_metric("activation/l2_norm") == no_metric("scalar/loss") == ""
    assert "must read 'subject/statistic'" in no_metric("nonsense")
    assert no_metric("") != ""
