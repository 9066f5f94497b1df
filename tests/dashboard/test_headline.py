"""The four cards in one breath, and what is folded under what."""

from collections.abc import Sequence
from dataclasses import replace

from mindscope.dashboard.headline import Headline, headline
from mindscope.dashboard.pages.findings.finding_cards import root_cause_groups
from mindscope.insight import Diagnosis, RunFacts
from mindscope.insight.diagnosis import concluded
from mindscope.insight.loss_levels import LossLevels
from mindscope.storage import Event, Finding, Run

from .recorded import BAD_SITE, BAD_STEP, findings


def said(run: Run, found: Sequence[Finding] = (), facts: RunFacts | None = None) -> Headline:
    begun = Diagnosis(run=run.id, verdict="undetermined", state=run.state, last_step=run.last_step)
    return headline(concluded(begun, found, {}, None, facts or RunFacts()))


def test_the_first_root_cause_is_the_headline(bad_run):
    told = said(bad_run, findings())
    assert told.verdict == "Unhealthy"
    assert told.first is not None
    assert (told.first.site, told.clean_until) == (BAD_SITE, BAD_STEP - 1)


def test_a_run_is_clean_until_its_earliest_finding_although_a_fact_is_named_before_it(bad_run):
    root = findings()[1]
    likely = replace(root, rule="dead-units", cause="dead_units", site="head", first_step=12, step=40, confidence=0.8)
    told = said(bad_run, (root, likely))
    assert (told.first.cause, told.clean_until) == ("non_finite_activation", 11)


def test_a_run_without_findings_is_healthy_only_if_it_learned(healthy_run):
    seen = dict.fromkeys(("scalar/loss", "update", "gradient"), 40)
    facts = RunFacts(seen=seen, loss=LossLevels(2.3, [0.4] * 9, 10))
    assert (said(healthy_run, (), facts).verdict, said(healthy_run, (), facts).tone) == ("No fault found", "quiet")
    facts.known.learn_event(Event("loss_input", 0, data={"loss": "cross_entropy", "columns": 10}))
    told = said(healthy_run, (), facts)
    assert (told.verdict, told.tone, told.clean_until) == ("Healthy", "good", healthy_run.last_step)
    assert said(healthy_run).verdict == "Undetermined"


def test_a_run_without_steps_waits(healthy_run):
    assert said(replace(healthy_run, last_step=-1)).tone == "quiet"


def test_a_run_that_failed_without_a_finding_is_not_called_healthy(healthy_run):
    told = said(replace(healthy_run, state="failed"))
    assert (told.verdict, told.tone) == ("Undetermined", "quiet")


def test_no_finding_is_lost_between_the_roots():
    roots = root_cause_groups(findings())
    kept = [finding for root in roots for finding in (root.finding, *root.same, *root.follows)]
    assert sorted(one.rule for one in kept) == sorted(one.rule for one in findings())
    assert roots[0].finding.site == BAD_SITE
    assert [finding.cause for finding in roots[0].follows] == ["non_finite_loss"]


def test_the_same_cause_in_many_places_is_one_box():
    root = findings()[1]
    others = tuple(replace(root, site=f"decoder.3.part{index}", order=(0, 1, 30 + index)) for index in range(4))
    first, *rest = root_cause_groups((root, *others))
    assert not rest
    assert first.same == others


def test_what_follows_from_a_consequence_stands_under_its_cause():
    like = findings()[0]
    rate, nan, frozen = (
        replace(
            like,
            rule=cause,
            cause=cause,
            severity=severity,
            first_step=step,
            step=step,
            site=site,
            confidence=certified_outcome,
        )
        for cause, severity, step, site, certified_outcome in (
            ("optimizer_state_stale", "error", 9, "", 0.9),
            ("non_finite_loss", "error", 30, "", 1.0),
            ("frozen_parameter", "warning", 31, "fc1", 1.0),
        )
    )
    (root,) = root_cause_groups((rate, nan, frozen))
    assert (root.finding, root.follows) == (rate, (nan, frozen))
