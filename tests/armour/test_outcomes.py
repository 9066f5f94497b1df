"""What is stored of certificates, privacy, reliability and drift: the forms that pages read."""

import json
import math

import numpy as np
import pytest
from mindscope.armour.certificates import certify, smooth
from mindscope.armour.certificates.certify import certificate_outcomes
from mindscope.armour.certificates.smoothing import smoothing_outcomes
from mindscope.armour.drift import drift_outcome, ks_drift, mmd_drift
from mindscope.armour.fuzz import NeuronCoverage, Watched, fuzz, inject_faults
from mindscope.armour.fuzz.fault_injection import fault_outcome
from mindscope.armour.fuzz.fuzzer import coverage_outcome
from mindscope.armour.privacy import Phase, measure_leakage
from mindscope.armour.privacy.privacy_outcomes import membership_outcome, privacy_outcome
from mindscope.framework import nn
from mindscope.storage import MemoryStore

from tests.armour.frameworks import engine, inputs, logits
from tests.armour.networks import linear, model

GENERATOR = np.random.default_rng(0)


def stored(outcomes):
    """What a store gives back of them."""
    with MemoryStore() as store:
        writer = store.begin_run("report", kind="evaluation")
        writer.write_outcomes(outcomes)
        writer.close()
        found = store.outcomes(writer.run.id)
    for outcome in found:
        json.dumps(outcome.details)
    assert len(found) == len(outcomes)
    return found


def test_certificates_are_one_outcome_a_budget():
    cell = nn.Dense(4, 3).set_train(False)
    x = GENERATOR.uniform(0, 1, (10, 4)).astype(np.float32)
    found = certify(cell, x, np.zeros(10, int), [0.0, 0.1])
    first, second = stored(certificate_outcomes(found))
    assert (first.attack, first.norm, first.epsilon, second.epsilon) == ("certified crown", "linf", 0.0, 0.1)
    assert [first.accuracy, second.accuracy] == found.accuracy.tolist()
    assert first.details == {"kind": "certificate", "method": "crown"}


def test_smoothing_is_one_outcome_a_radius():
    network = linear(features=6)
    x = GENERATOR.uniform(0, 1, (8, 6)).astype(np.float32)
    y = network.logits(x).argmax(axis=1)
    found = smooth(model(network), x, 0.1, trials=100)
    outcomes = stored(smoothing_outcomes(found, y, [0.0, 0.1], sigma=0.1, trials=100, alpha=0.001))
    assert [one.accuracy for one in outcomes] == [found.accuracy(y, 0.0), found.accuracy(y, 0.1)]
    assert outcomes[0].details["sigma"] == 0.1


def test_privacy_is_a_curve_that_rises_to_the_published_figure():
    (outcome,) = stored([privacy_outcome(Phase(1.1, 0.01, 10_000), 1e-5)])
    assert outcome.epsilon == pytest.approx(5.63, rel=1e-3)
    steps, epsilons = outcome.details["steps"], outcome.details["epsilons"]
    assert (steps[0], steps[-1], len(steps)) == (1, 10_000, 200)
    assert epsilons == sorted(epsilons)
    assert epsilons[-1] == outcome.epsilon
    assert math.isnan(outcome.accuracy)


def test_membership_keeps_the_curve_where_it_is_read():
    leakage = measure_leakage(GENERATOR.normal(1, 1, 20_000), GENERATOR.normal(0, 1, 20_000))
    (outcome,) = stored([membership_outcome("lira", leakage)])
    x, y = (np.array(outcome.details[f"{side}_positive_rates"]) for side in ("false", "true"))
    assert len(x) <= 400
    assert (np.diff(x) >= 0).all()
    assert (np.diff(y) >= 0).all()
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
    for rate in (0.001, 0.01, 0.1, 0.5):
        assert np.interp(rate, x, y) == pytest.approx(leakage.tpr_at(rate), abs=0.01)
    assert outcome.details["tpr_at"]["0.01"] == leakage.tpr_at(0.01)
    assert np.trapezoid(y, x) == pytest.approx(outcome.details["auc"], abs=0.005)


def test_membership_keeps_no_rate_that_its_samples_cannot_resolve():
    leakage = measure_leakage(GENERATOR.normal(1, 1, 300), GENERATOR.normal(0, 1, 300))
    details = stored([membership_outcome("lira", leakage)])[0].details
    assert list(details["tpr_at"]) == list(details["tpr_intervals"]) == ["0.01"]
    assert details["auc_interval"][0] < details["auc"] < details["auc_interval"][1]
    assert (details["members"], details["others"], details["smallest_rate"]) == (300, 300, 1 / 300)


def test_coverage_and_faults_tell_what_was_lost():
    watched, x = Watched(engine()), inputs(12)
    y = logits(x).argmax(axis=1)
    coverage = NeuronCoverage(watched, x)
    before = coverage.report()
    corpus, after = fuzz(watched, coverage, x[:4], y[:4], rounds=2, mutants=4)
    (outcome,) = stored([coverage_outcome(before, after, corpus, 4, [{"round": 1}])])
    assert outcome.accuracy == np.mean(~corpus.failed)
    assert outcome.details["after"]["k_sections"] == after.k_sections > outcome.details["before"]["k_sections"]
    faults = inject_faults(watched, x, y, faults=["nan", "zero"])
    outcomes = stored([fault_outcome(one, len(x)) for one in faults])
    assert {(one.attack, one.norm) for one in outcomes} == {(f"fault {one.fault} weights", one.site) for one in faults}
    assert all(one.details["drop"] == one.details["clean_accuracy"] - one.accuracy for one in outcomes)


def test_drift_is_one_outcome_a_test():
    before, now = GENERATOR.normal(0, 1, (60, 300)), GENERATOR.normal(1, 1, (40, 300))
    outcomes = stored(
        [
            drift_outcome("ks", ks_drift(before, now), level=0.05, reference=60, current=40),
            drift_outcome("mmd", mmd_drift(before, now, permutations=20), level=0.05, reference=60, current=40),
        ]
    )
    found = {one.attack: one.details for one in outcomes}
    assert found["drift ks"]["has_drifted"]
    assert len(found["drift ks"]["features"]) == 256
    assert found["drift mmd"]["features"] == []
