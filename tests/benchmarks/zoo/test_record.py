"""Which rules may say warning or error, by the healthy programs that they accused."""

from dataclasses import replace

from mindscope.insight import rule_confidence

from benchmarks.faults.outcome import Alarm
from benchmarks.zoo.case import Case
from benchmarks.zoo.entries import ENTRIES
from benchmarks.zoo.record import accusations, merged, source, still_accused
from benchmarks.zoo.trial import Cost, Watched

COST = Cost(10.0, 11.0, 300.0, "0.5", 0, "")


def case(name, *rules, seed=0, withheld=()):
    said, asked = (tuple(Alarm(rule, rule, "warning", "", 0, 5, 5) for rule in part) for part in (rules, withheld))
    return Case(ENTRIES[name], seed, "", None, "", "", None, COST, Watched(COST, "", said, said, asked))


def test_what_a_rule_may_not_say_counts_as_well():
    found = accusations([case("cnn", "plateau"), case("cnn", seed=1), case("gan", withheld=("plateau",))])
    assert found == {"runs": 3, "programs": 2, "families": 2, "accused": {"plateau": [2, 2]}}


def test_a_rule_that_is_wrong_in_one_family_only_still_speaks_there():
    assert still_accused([case("cnn", "plateau"), case("gan")]) == [True, False]
    assert still_accused([case("cnn", "plateau"), case("gan", "plateau")]) == [False, False]


def test_documents_of_both_halves_are_added_up_and_the_module_can_be_read():
    counted = [accusations([case("cnn", "plateau")]), accusations([case("gan", "plateau"), case("vae")])]
    made = [{"runs": 9, "named": {"plateau": [1, 2]}}, {"runs": 5, "named": {"plateau": [0, 1], "data-leak": [1, 1]}}]
    judged = (["data-leak", "plateau"], ["plateau", "unknown"])
    total = merged(
        {"rules": rules, "severity": part, "claims": found}
        for rules, part, found in zip(judged, counted, made, strict=True)
    )
    assert (total["runs"], total["programs"], total["families"], total["named_runs"]) == (3, 3, 3, 14)
    names: dict[str, object] = {}
    exec(source(total), names)
    assert (names["RUNS"], names["ACCUSED"]) == (3, {"plateau": (2, 2)})
    assert names["RULES"] == {"plateau"}
    assert names["NAMED_ABROAD"] == {"data-leak": (1, 1), "plateau": (1, 3)}


def test_kept_results_follow_the_table(monkeypatch):
    monkeypatch.setattr(rule_confidence, "RUNS", 100)
    monkeypatch.setattr(rule_confidence, "ACCUSED", {"plateau": (1, 1)})
    watched = case("cnn", "plateau", "dead-units", withheld=("loss-spike",)).watched.as_earned()
    assert [alarm.rule for alarm in watched.alarms] == ["dead-units", "loss-spike"]
    assert [alarm.rule for alarm in watched.withheld] == ["plateau"]
    assert [root.rule for root in watched.roots] == ["dead-units"]
    assert Watched.from_json(replace(watched).to_json()) == watched
