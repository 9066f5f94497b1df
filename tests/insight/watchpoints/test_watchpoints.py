"""Watchpoints over small recordings: each against a plain reading of the same values."""

import numpy as np
import pytest
from mindscope.insight import InvalidRule, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.watchpoints import rules_with, watchpoints_of
from mindscope.storage import Finding


def met(condition: object, recording: Recording) -> tuple[Finding, ...]:
    engine = Engine(rules_with({}, {"watchpoints": [condition]}))  # type: ignore[dict-item, list-item]
    engine.learn_structure(recording.structure)
    return tuple(finding for record in recording.records() for finding in engine.observe(record))


def places(found: tuple[Finding, ...]) -> list[tuple[str, int]]:
    return [(finding.site, finding.step) for finding in found]


def test_a_bound_is_met_once_for_every_time_it_is_crossed() -> None:
    run = Recording({"head gradient/l2_norm": (1.0, 11.0, 12.0, 1.0, 30.0), "tail gradient/l2_norm": 1.0})
    assert places(met("gradient/l2_norm @ * > 10", run)) == [("head", 1), ("head", 4)]


def test_a_bound_that_must_hold_for_steps_names_the_first_of_them() -> None:
    run = Recording({"head gradient/l2_norm": (1.0, 11.0, 1.0, 11.0, 12.0, 13.0, 14.0)})
    (found,) = met("gradient/l2_norm @ head > 10 for 3 steps", run)
    assert (found.first_step, found.step, found.evidence["value"]) == (3, 5, 13.0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_hits_are_those_of_a_plain_loop(seed: int, steps: int) -> None:
    values = np.random.default_rng(seed).normal(size=60).tolist()
    wanted, streak = [], 0
    for step, value in enumerate(values):
        streak = streak + 1 if abs(value) > 0.5 else 0
        wanted += [("head", step)] if streak == steps else []
    found = met(f"weight/mean @ head outside [-0.5, 0.5] for {steps} steps", Recording({"head weight/mean": values}))
    assert places(found) == wanted


def test_a_glob_chooses_the_sites() -> None:
    run = Recording({f"{site} weight/max": (9.0, 9.0) for site in ("a.one", "a.two", "b.one")})
    assert places(met("weight/max @ a.* >= 9", run)) == [("a.one", 0), ("a.two", 0)]


def test_the_model_itself_goes_by_the_name_that_is_shown() -> None:
    run = Recording({" activation/max": (9.0, 9.0), "a activation/max": (9.0, 9.0)})
    assert places(met("activation/max @ (model) >= 9", run)) == [("", 0)]


def test_a_change_is_relative_and_the_first_value_is_none() -> None:
    run = Recording({"head weight/l2_norm": (1.0, 1.05, 2.1, 2.1)})
    assert places(met("change of weight/l2_norm @ * > 0.5", run)) == [("head", 2)]
    assert places(met("change of weight/l2_norm @ * < 1e-9", run)) == [("head", 3)]


def test_unchanged_wants_every_statistic_to_be_what_it_was() -> None:
    still = {"head weight/l2_norm": (1.0, 1.0, 1.0), "head weight/max": (1.0, 2.0, 2.0)}
    assert places(met("unchanged weight @ *", Recording(still))) == [("head", 2)]


def test_contents_are_found_in_any_subject() -> None:
    run = Recording({"head activation/nans": (0.0, 3.0), "head.weight gradient/neg_infs": (0.0, 1.0)})
    assert {site for site, _ in places(met("non-finite @ head*", run))} == {"head", "head.weight"}
    assert places(met("nan", run)) == [("head", 1)]


def test_a_scalar_needs_no_site_and_nan_meets_no_bound() -> None:
    run = Recording({"scalar/loss": (1.0, float("nan"), 5.0)})
    assert places(met("scalar/loss > 4", run)) == [("", 2)]
    assert not met("scalar/loss < 0", run)


def test_a_condition_met_everywhere_names_some_sites_and_counts_the_others() -> None:
    run = Recording({f"layer.{number} weight/max": (9.0,) for number in range(100)})
    found = met("weight/max @ * > 1", run)
    assert len(found) == 8
    assert found[-1].evidence["further_sites"] == 92.0


def test_a_subject_that_was_never_recorded_is_said() -> None:
    engine = Engine(rules_with({}, {"watchpoints": ["router/load_max @ * > 0.9"]}))
    engine.observe(next(iter(Recording({"scalar/loss": (1.0,)}).records())))
    assert engine.not_run() == {"watchpoint/router/load_max @ * > 0.9": "router was never recorded"}


def test_names_severities_and_pauses_are_configured() -> None:
    (watchpoint,) = watchpoints_of(
        {"watchpoints": [{"when": "nan", "name": "bad", "severity": "error", "pause": True}]}
    )
    assert (watchpoint.name, watchpoint.severity, watchpoint.pauses) == ("bad", "error", True)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ("nan", "must be a list"),
        ([{"condition": "nan"}], "mapping with `when`"),
        ([{"when": "nan", "severity": "eror"}], "did you mean 'error'"),
        (["nan", "nan"], "is there twice"),
    ],
)
def test_entries_that_are_no_watchpoints_are_refused(entries: object, words: str) -> None:
    with pytest.raises(InvalidRule, match=words):
        watchpoints_of({"watchpoints": entries})  # type: ignore[dict-item]
