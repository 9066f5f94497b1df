"""The table of other tools: their shares beside ours, of the same runs."""

from benchmarks.faults.cases import CASES
from benchmarks.faults.outcome import Alarm, Outcome
from benchmarks.faults.peer_report import document

FAULT, TWIN = CASES["dead-relu"], CASES["mlp"]


def alarm(cause, site):
    return Alarm("rule", cause, "warning", site, 0, 5, 5)


def outcomes(case, *alarms, error=""):
    return Outcome(case.name, 3, sites=("fc2",), alarms=alarms, roots=alarms, seconds=1.0, error=error)


def test_a_tool_that_sees_the_site_and_misses_the_cause_stands_beside_one_that_was_stopped():
    found = {
        ("seeing", FAULT.name, 3): outcomes(FAULT, alarm("plateau", "fc2")),
        ("seeing", TWIN.name, 3): outcomes(TWIN),
        ("slow", FAULT.name, 3): outcomes(FAULT, error="ended after 60 s"),
        ("slow", TWIN.name, 3): outcomes(TWIN, alarm("plateau", "")),
    }
    ours = {(FAULT.name, 3): outcomes(FAULT, alarm("dead_units", "fc2")), (TWIN.name, 3): outcomes(TWIN)}
    written = document([FAULT, TWIN], (3,), found, ours, {"seeing": "1.0", "slow": "2.0"}, limit_s=60.0)
    rows = {row["metric"]: (row["value"], row["peers"]) for row in written["results"]}
    assert rows["detection, net of the twin's alarms"] == (100.0, {"seeing": 100.0, "slow": 0.0})
    assert rows["site and rank, first cause"] == (100.0, {"seeing": 100.0, "slow": 0.0})
    assert rows["cause, first three"] == (100.0, {"seeing": 0.0, "slow": 0.0})
    assert rows["healthy runs with any warning"] == (0.0, {"seeing": 0.0, "slow": 100.0})
    assert written["stopped"] == {"slow, after 60 s": [FAULT.name]}


def test_without_our_outcomes_the_column_is_empty():
    found = {("tool", case.name, 3): outcomes(case) for case in (FAULT, TWIN)}
    written = document([FAULT, TWIN], (3,), found, {}, {"tool": "1.0"}, limit_s=60.0)
    assert {row["value"] for row in written["results"]} == {None}
