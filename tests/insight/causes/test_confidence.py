"""How sure a finding is, by what its rule was worth."""

import pytest
from mindscope.insight import RULES
from mindscope.insight import rule_confidence as confidence
from mindscope.insight.calibration import NAMED
from mindscope.insight.rule_confidence import as_earned, calibrated
from mindscope.insight.verdict import is_question
from mindscope.insight.zoo_record import NAMED_ABROAD
from mindscope.storage import Finding
from mindscope.storage.records import Severity


def test_what_was_never_measured_is_at_most_a_suspicion() -> None:
    assert calibrated("no-such-rule", 0.95) == pytest.approx(0.6)
    assert calibrated("no-such-rule", 0.5) == pytest.approx(0.5)


def test_only_what_was_verified_in_the_run_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidence, "NAMED", {"non-finite-loss": (1, 20), "plateau": (400, 400)})
    assert calibrated("non-finite-loss", 1.0) == 1.0
    assert calibrated("plateau", 1.0) < 1.0


def test_measured_runs_cap_the_word_of_the_rule_at_the_lower_end_of_their_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(confidence, "NAMED", {"doubtful": (5, 20), "sure": (20, 20), "rare": (5, 5)})
    assert calibrated("doubtful", 0.9) == pytest.approx(0.112, abs=5e-4)
    assert calibrated("rare", 0.9) == pytest.approx(0.566, abs=5e-4)
    assert 0.83 < calibrated("sure", 0.9) < 0.85


def test_what_a_run_alone_cannot_tell_is_never_said_with_confidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidence, "NAMED", {"shape": (900, 900)})
    assert calibrated("shape", 0.9, asks="reference") == 0.7


def test_the_record_is_of_rules_that_there_are() -> None:
    assert NAMED.keys() <= RULES.keys()
    assert all(0 <= right <= named for right, named in (*NAMED.values(), *NAMED_ABROAD.values()))


def finding(rule: str = "plateau", severity: Severity = "error", confidence: float = 0.9) -> Finding:
    return Finding(rule, rule, severity, 9, 5, "fc", "", {}, "the loss stays", "look", confidence)


def test_a_rule_that_never_accused_a_healthy_run_may_say_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidence, "RUNS", 100)
    monkeypatch.setattr(confidence, "ACCUSED", {"loss-spike": (1, 1)})
    assert as_earned(finding()) == finding()


def test_a_rule_that_accused_too_many_healthy_runs_only_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidence, "RUNS", 100)
    monkeypatch.setattr(confidence, "ACCUSED", {"plateau": (1, 1)})
    asked = as_earned(finding())
    assert is_question(asked)
    assert confidence.is_withheld(asked.severity, asked.explanation)
    assert asked.confidence == 0.5
    notice = finding(severity="info", confidence=0.1)
    assert as_earned(notice) == notice


def test_one_accusation_of_two_hundred_is_few_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidence, "ACCUSED", {"plateau": (1, 1)})
    monkeypatch.setattr(confidence, "RUNS", 199)
    assert not confidence.is_earned("plateau")
    monkeypatch.setattr(confidence, "RUNS", 200)
    assert confidence.is_earned("plateau")


def test_it_is_told_in_sentences_how_often_a_rule_was_right(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RUNS": 60, "PROGRAMS": 30, "ACCUSED": {"plateau": (2, 1)}}.items():
        monkeypatch.setattr(confidence, name, value)
    monkeypatch.setattr(confidence, "NAMED_ABROAD", {"dead-units": (0, 1)})
    healthy = "in 60 runs of 30 healthy programs of other people"
    assert confidence.record_in_words("plateau", 0, 0) == f". The rule gave 2 false alarms {healthy}"
    assert confidence.record_in_words("dead-units", 25, 25) == (
        ". In test programs of our own whose faults are known, the rule named its cause 25 times, and was right each "
        "time. In programs of other people whose faults are known, the rule named its cause once, wrongly"
        f". The rule gave no false alarm {healthy}"
    )
    assert "8 times, and was right 7 times. The rule gave" in confidence.record_in_words("plateau", 7, 8)
    assert confidence.record_in_words("watchpoint/loss", 0, 0) == ""
    monkeypatch.setattr(confidence, "RULES", frozenset({"dead-units"}))  # plateau came later
    assert "healthy" not in confidence.record_in_words("plateau", 7, 8)
    monkeypatch.setattr(confidence, "RUNS", 0)
    assert confidence.record_in_words("plateau", 0, 0) == ""


def test_no_rule_is_surer_than_it_was_right_in_programs_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidence, "NAMED", {"sure": (400, 400), "new": (400, 400)})
    monkeypatch.setattr(confidence, "NAMED_ABROAD", {"sure": (1, 16), "other": (9, 10)})
    assert calibrated("sure", 0.99) < 0.25
    assert calibrated("new", 0.99) == pytest.approx(confidence.abroad("new", confidence.NAMED_ABROAD), abs=1e-3)
    assert calibrated("non-finite-loss", 1.0) == 1.0


def test_a_rule_that_was_never_named_abroad_is_worth_what_all_rules_are() -> None:
    record = {"one": (1, 4), "two": (3, 4)}
    assert confidence.abroad("three", record) == pytest.approx(0.5)
    assert confidence.abroad("one", record) == pytest.approx((1 + 4 * 0.5) / 8)
    assert confidence.abroad("one", {}) == 1.0


def test_a_record_of_rules_that_were_never_right_at_home_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidence, "NAMED", {"one": (0, 30)})
    assert confidence.abroad("one", {"one": (1, 2)}) == pytest.approx(1 / 6)
