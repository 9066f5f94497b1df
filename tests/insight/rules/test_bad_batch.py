"""An outlier among batches is told when the next ones are as usual, and never where they stay as it is."""

from dataclasses import replace

import numpy as np
import pytest
from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.recording import chain
from mindscope.insight.root_causes import root_causes
from mindscope.storage import Event, OptimizerInfo

CALM = tuple(2.0 - 0.03 * step + 0.02 * (-1) ** step for step in range(40))
USUAL = (8.0, 8.2) * 20


def told(loss, norm, *, batch=None, left_out=()):
    """The findings after every record in which there were any, by step; some steps were not recorded."""
    series = {"scalar/loss": (*CALM, *loss), " batch/l2_norm": (*USUAL, *norm)}
    if batch is not None:
        series["scalar/batch/id"] = tuple(float(batch + step) for step in range(40 + len(loss)))
    engine = Engine({"bad-batch": RULES["bad-batch"]})
    engine.learn_structure(chain("one:Dense", "two:Dense"))
    records = [record for record in Recording(series).records() if record.step not in left_out]
    return {record.step: found for record in records if (found := engine.observe(record))}, engine.findings


def test_a_strange_batch_is_told_once_when_the_next_one_is_as_usual():
    found, kept = told((4.0, 0.8, 0.8), (90.0, 8.0, 8.1))
    ((finding,),) = found.values()
    assert (finding.first_step, finding.step, finding.severity) == (40, 41, "warning")
    assert kept == (finding,)


@pytest.mark.parametrize("norm", [(90.0,) * 9, (8.0, 8.1) * 5], ids=["other-data", "another-loss"])
def test_the_first_batch_of_another_phase_is_no_outlier(norm):
    found, kept = told((7.0,) * len(norm), norm)
    assert not found
    assert not kept


def test_what_was_learned_between_two_records_was_no_outlier():
    """A second task that is learned in some steps, of which one record is kept in forty."""
    found, _ = told((7.0, *(3.0,) * 39, 0.8, 0.8), (8.0, 8.2) * 21, left_out=range(41, 80))
    assert not found
    found, _ = told((4.0, *(0.8,) * 41), (90.0, *(8.0, 8.1) * 20, 8.0), left_out=range(41, 80))
    assert list(found) == [80]  # its input was another one


def test_labels_alone_are_said_when_the_next_batches_are_as_usual():
    found, _ = told((7.0, 0.8, 0.8), (8.0, 8.1, 8.1))
    assert sorted(found) == [41]


@pytest.mark.parametrize(("batch", "words"), [(None, "the batch of step 40 is"), (500, "step 40 (batch 540) is")])
def test_the_number_of_the_batch_stands_where_there_is_one_and_nothing_where_there_is_none(batch, words):
    _, kept = told((4.0, 0.8, 0.8), (90.0, 8.0, 8.1), batch=batch)
    assert words in kept[0].explanation
    assert ("batch_id" in kept[0].evidence) is (batch is not None)
    assert all(value == value for value in kept[0].evidence.values())


def test_a_missing_value_in_the_data_is_the_cause_of_the_first_non_finite_activation():
    series = {
        "scalar/loss": (2.0, 1.9, np.nan),
        " batch/nans": (0.0, 0.0, 1.0),
        "one activation/nans": (0.0, 0.0, 64.0),
    }
    recording = Recording(series, chain("one:Dense", "two:Dense"))
    engine = Engine({name: RULES[name] for name in ("bad-batch", "non-finite-activation")})
    engine.learn_structure(recording.structure)
    for record in recording.records():
        engine.observe(record)
    (root,) = root_causes(engine.findings, recording.structure)
    assert (root.cause, root.site, root.first_step, root.confidence) == ("bad_batch", "", 2, 1.0)
    assert "holds 1 NaN" in root.explanation
    (follows,) = [found for found in engine.findings if found is not root]
    assert (follows.cause, follows.site) == ("non_finite_activation", "one")
    assert "look at the data first" in follows.explanation


@pytest.mark.parametrize(
    ("loss", "nans"),
    [
        ((2.0, 1.9, np.nan), (0.0, 2.0, 1.0)),  # the model has borne such a batch
        ((2.0, np.nan, np.nan), (0.0, 0.0, 1.0)),  # the loss was lost before
    ],
)
def test_missing_values_that_are_not_what_ended_the_training_are_left_alone(loss, nans):
    engine = Engine({"bad-batch": RULES["bad-batch"]})
    for record in Recording({"scalar/loss": loss, " batch/nans": nans}, chain("one:Dense")).records():
        engine.observe(record)
    assert engine.findings == ()


def test_the_first_batch_of_another_client_is_no_outlier():
    series = {"scalar/loss": (*CALM, 7.0, 0.8, 0.8), " batch/l2_norm": (*USUAL, 8.0, 8.1, 8.1)}
    called = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})
    anew = Event("optimizer_changed", 40, data={"optimizer_kind": "SGD", "before": ["SGD"]})

    def findings(*events):
        engine = Engine({"bad-batch": RULES["bad-batch"]})
        engine.learn_structure(chain("one:Dense", "two:Dense"))
        for record in Recording(series, events=events).records():
            engine.observe(record)
        return engine.findings

    assert findings(called)
    assert not findings(called, anew)


def test_what_another_network_has_made_of_nan_weights_is_no_bad_batch():
    def told_with(optimizers, nans):
        model = replace(chain("one:Dense", "two:Dense"), optimizers=(OptimizerInfo("Adam"),) * optimizers)
        series = {"scalar/loss": (2.0, 1.9, np.nan), " batch/nans": (0.0, 0.0, nans), " batch/size": 8.0}
        engine = Engine({"bad-batch": RULES["bad-batch"]})
        engine.learn_structure(model)
        for record in Recording(series, model).records():
            engine.observe(record)
        return engine.findings

    assert told_with(1, 8.0)
    assert told_with(2, 3.0)
    assert not told_with(2, 8.0)
