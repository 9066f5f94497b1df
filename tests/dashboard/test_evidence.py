"""What findings rest on: numbers that lead to their series, muting, causes ruled out, conditions replayed."""

import json
from dataclasses import replace

import pytest
from mindscope.dashboard import Settings, create_app
from mindscope.dashboard.headline import diagnosis_of
from mindscope.dashboard.pages.findings.finding_cards import evidence_address
from mindscope.dashboard.pages.findings.findings_page import findings_list
from mindscope.dashboard.queries.finding_queries import muted, replay_condition
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import Event, InvalidName, open_store

from .recorded import BAD_SITE, BAD_STEP, Plan, findings, records, structure_of, write_run

ROOT = next(one for one in findings() if one.rule == "non-finite-activation")
LOSS = next(one for one in findings() if one.rule == "loss-spike")
TOKEN = "correct-horse-battery-staple"


def test_a_statistic_leads_to_its_own_series_and_other_numbers_to_that_of_the_finding(reader, bad_run):
    assert evidence_address(reader, bad_run, ROOT, "nans").metric == "activation/nans"
    there = evidence_address(reader, bad_run, ROOT, "inputs_non_finite")
    assert (there.page, there.metric, there.site, there.step) == ("tensor", "activation/nans", BAD_SITE, BAD_STEP)


def test_a_scalar_leads_to_its_curve_around_the_step(reader, bad_run):
    assert "steps=40-140" in evidence_address(reader, bad_run, LOSS, "deviation").href
    assert "scalar=learning_rate" in evidence_address(reader, bad_run, ROOT, "learning_rate").href


def test_a_rule_can_speak_when_what_it_needs_was_recorded(reader, bad_run):
    spoke = set(diagnosis_of(reader, bad_run).rules_run)
    assert {"loss-spike", "non-finite-activation"} <= spoke
    assert "loss-scale-overflow" not in spoke


def test_a_condition_is_met_in_history_where_it_was(reader, bad_run):
    found = replay_condition(reader, bad_run, f"activation/nans @ {BAD_SITE} > 0")
    assert found.findings[0].first_step == BAD_STEP
    assert (found.records, found.is_whole) == (300, True)
    assert replay_condition(reader, bad_run, "scalar/loss > 1e9").findings == ()


def test_a_condition_that_is_none_is_told(reader, bad_run):
    with pytest.raises(InvalidName, match="is not understood"):
        replay_condition(reader, bad_run, "loss is bad")


def press(app, client, run, kind, finding):
    """Presses the button of a finding as a browser does: by an id that is a pattern."""
    button = {"type": kind, "rule": finding.rule, "site": finding.site}
    if kind == "findings-mute":
        button["at"] = f"{finding.first_step}.{finding.rank}"
    pressed = {"id": button, "property": "n_clicks", "value": 1}
    name, spec = next(
        (name, spec) for name, spec in app.callback_map.items() if "findings-unmute" in str(spec["inputs"])
    )
    ends = [dict(zip(("id", "property"), one.rsplit(".", 1), strict=True)) for one in name.strip(".").split("...")]
    body = {
        "output": name,
        "outputs": ends,
        "inputs": [[pressed] if kind in end["id"] else [] for end in spec["inputs"]],
        "state": [{**spec["state"][0], "value": run}],
        "changedPropIds": [json.dumps(button, sort_keys=True, separators=(",", ":")) + ".n_clicks"],
    }
    return client.post("/_dash-update-component", json=body).get_data(as_text=True)


@pytest.fixture
def store():
    with open_store("memory:") as store:
        write_run(store, plan=Plan(steps=5))
        yield store


def test_who_has_the_token_mutes_a_finding_and_shows_it_again(store):
    run, app = store.find_run("latest").id, create_app(store, Settings(token=TOKEN, is_open=True))
    client = app.server.test_client()
    client.get(f"/?token={TOKEN}")
    assert "Show again" in press(app, client, run, "findings-mute", ROOT)
    assert muted(Reader(store), run) == ((ROOT.rule, ROOT.site),)
    assert ROOT.rule not in {one.rule for one in store.findings(run)}
    assert "Show again" not in press(app, client, run, "findings-unmute", ROOT)
    assert muted(Reader(store), run) == ()


def test_who_has_no_token_mutes_nothing(store):
    run, app = store.find_run("latest").id, create_app(store, Settings(token=TOKEN, is_open=True))
    assert "token" in press(app, app.server.test_client(), run, "findings-mute", ROOT)
    assert store.muted(run) == ()


def test_the_page_tells_what_was_ruled_out_and_links_its_numbers(reader, bad_run):
    words = str(findings_list(reader, bad_run))
    assert "No sign of" in words
    assert "metric=activation/nans" in words


def test_the_page_tells_which_modules_changed_before_a_finding(reader, bad_run):
    assert "Modules changed" not in str(findings_list(reader, bad_run))
    change = Event("modules_changed", BAD_STEP - 2, data={"sites": ["head"], "count": 1})
    with open_store("memory:") as store:
        writer = store.begin_run("changed")
        writer.write_structure(structure_of(Plan()))
        course = [replace(one, events=(change,)) if one.step == change.step else one for one in records(Plan())]
        writer.write(course, findings())
        writer.close()
        words = str(findings_list(Reader(store), store.find_run("changed")))
    assert f"head at step {BAD_STEP - 2}, 2 steps before" in words
