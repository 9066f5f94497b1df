"""A search over the store: what is proposed, remembered, pruned and found again."""

import sys

import numpy as np
import pytest
from mindscope.insight import tune
from mindscope.insight.lineage import importance, lineage
from mindscope.storage import Finding, RunNotFound, StepRecord, open_store

optuna = pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'mindscope[tune]'")


@pytest.fixture(autouse=True)
def _quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


@pytest.fixture
def store():
    with open_store("memory:") as opened:
        yield opened


def training(store, *, loss=lambda x, kind: (x - 0.3) ** 2 + (kind == "b"), finding=None, reports=()):
    """A training with two parameters, that records a run and reports on its way."""

    def train(attempt):
        x = attempt.trial.suggest_float("x", -1.0, 1.0)
        kind = attempt.trial.suggest_categorical("kind", ["a", "b"])
        writer = store.begin_run(attempt.name, tags=attempt.tags)
        value = loss(x, kind)
        writer.write([StepRecord(0, 0.0, scalars={"loss": value})])
        found = finding(x) if finding else ()
        for step, value_now in enumerate((*reports, value)):
            if attempt.report(step, value_now, found):
                break
        writer.close()
        return value

    return train


def test_trials_are_runs_with_their_parameters_and_the_objective_as_tags(store):
    found = tune.search(training(store), store, trials=6, study="s")
    runs = {run.name: run for run in store.runs() if run.kind == "training"}
    assert [trial.state for trial in found.trials] == ["complete"] * 6
    for trial in found.trials:
        run = runs[f"s {trial.number}"]
        assert run.id == trial.run
        assert run.tags == {**trial.parameters, "study": "s", "trial": trial.number, "objective": trial.value}
        assert trial.value == pytest.approx((trial.parameters["x"] - 0.3) ** 2 + (trial.parameters["kind"] == "b"))
    assert found.best.value == min(trial.value for trial in found.trials)


def test_the_study_is_a_run_whose_series_is_the_objective_by_trial(store):
    found = tune.search(training(store), store, trials=4, study="s", direction="maximize")
    series = store.series(store.find_run("s").id, "", "scalar/trial/objective")
    assert series.steps.tolist() == [0, 1, 2, 3]
    assert series.values.tolist() == [trial.value for trial in found.trials]
    assert found.best.value == max(series.values)


def test_the_search_finds_the_minimum_better_than_its_first_guesses(store):
    found = tune.search(training(store), store, trials=40, study="s", seed=1)
    assert found.best.value < 0.01
    assert found.best.value <= min(trial.value for trial in found.trials[:10])


def test_a_study_goes_on_where_the_store_says_it_was(store):
    first = tune.search(training(store), store, trials=5, study="s", seed=3)
    search = tune.search(training(store), store, trials=3, study="s", seed=4)
    assert search.trials[:5] == first.trials
    assert [trial.number for trial in search.trials] == list(range(8))
    assert tune.search(training(store), store, trials=0, study="other").trials == ()


def test_what_was_learned_before_is_told_to_optuna(store):
    tune.search(training(store), store, trials=30, study="s", seed=3)
    later = tune.search(training(store), store, trials=8, study="s", seed=4).trials[30:]
    fresh = tune.search(training(store), store, trials=8, study="t", seed=4).trials
    assert np.median([trial.value for trial in later]) < np.median([trial.value for trial in fresh])


def finding(severity):
    return Finding("r", "loss_spike", severity, 0, 0, "", "scalar/loss", {}, "jumps", "look")


def test_a_bad_finding_prunes_a_trial_and_a_mild_one_does_not(store):
    train = training(store, finding=lambda x: [finding("error" if x > 0 else "warning")], reports=[5.0])
    found = tune.search(train, store, trials=10, study="s")
    for trial in found.trials:
        is_bad = trial.parameters["x"] > 0
        assert (trial.state, trial.pruned_by) == (("pruned", "loss_spike") if is_bad else ("complete", ""))
        if is_bad:
            assert trial.value == 5.0  # what it had reported when it was stopped
    assert {trial.state for trial in found.trials} == {"pruned", "complete"}
    assert all("objective" not in store.find_run(t.run).tags for t in found.trials if t.state == "pruned")


def test_findings_prune_nothing_when_nobody_wants_it(store):
    train = training(store, finding=lambda x: [finding("error")])
    assert {trial.state for trial in tune.search(train, store, trials=3, study="s", prune_on=None).trials} == {
        "complete"
    }


def test_optunas_own_pruner_is_asked_as_well(store):
    train = training(store, reports=[9.0])
    pruner = optuna.pruners.ThresholdPruner(upper=8.0)
    (trial,) = tune.search(train, store, trials=1, study="s", pruner=pruner).trials
    assert (trial.state, trial.pruned_by, trial.value) == ("pruned", "value", 9.0)


def test_a_loss_of_nan_is_a_failed_trial_and_never_the_best(store):
    train = training(store, loss=lambda x, kind: float("nan") if x > 0 else -x)
    found = tune.search(train, store, trials=8, study="s")
    assert {trial.state for trial in found.trials} == {"failed", "complete"}
    assert found.best.state == "complete"


def test_an_error_of_the_training_ends_the_search_and_is_remembered(store):
    def train(attempt):
        attempt.trial.suggest_float("x", 0.0, 1.0)
        raise ZeroDivisionError("in the third layer")

    with pytest.raises(ZeroDivisionError, match="third layer"):
        tune.search(train, store, trials=3, study="s")
    study = store.find_run("s")
    assert (study.state, study.error) == ("failed", "ZeroDivisionError: in the third layer")
    again = tune.search(training(store), store, trials=1, study="s")
    assert [(trial.number, trial.state) for trial in again.trials] == [(0, "failed"), (1, "complete")]


def test_a_training_that_records_no_run_is_told_what_to_do(store):
    with pytest.raises(RunNotFound, match=r"no run 's 0'; pass run=attempt\.name"):
        tune.search(lambda attempt: attempt.trial.suggest_float("x", 0.0, 1.0), store, trials=1, study="s")


def test_lineage_explains_the_objective_of_a_search(store):
    tune.search(training(store), store, trials=40, study="s", sampler=optuna.samplers.RandomSampler(seed=0))
    found = importance(lineage(store), "objective", fields=["x", "tag.kind"])
    assert {trial.field for trial in found} == {"tag.x", "tag.kind"}
    assert all(trial.p_value < 0.05 for trial in found)


def test_without_optuna_the_extra_is_named(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"mindscope\[tune\]"):
        tune.search(training(store), store, trials=1, study="s")
