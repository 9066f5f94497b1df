"""How sure a finding is, by what its rule was worth."""

import pytest
from mindscope.insight import RULES
from mindscope.insight import rule_confidence as confidence
from mindscope.insight.calibration import NAMED
from mindscope.insight.rule_confidence import calibrated


def test_what_was_never_measured_is_as_sure_as_the_rule_says() -> None:
    assert calibrated("no-such-rule", 0.7) == pytest.approx(0.7)


def test_a_fact_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidence, "NAMED", {"doubtful": (1, 20)})
    assert calibrated("doubtful", 1.0) == 1.0


def test_many_runs_outweigh_the_word_of_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidence, "NAMED", {"doubtful": (5, 20), "sure": (20, 20)})
    assert calibrated("doubtful", 0.9) == pytest.approx((5 + 1.8) / 22, abs=5e-4)
    assert calibrated("doubtful", 0.9) < 0.35 < 0.9 < calibrated("sure", 0.9) < 1


def test_the_record_is_of_rules_that_there_are() -> None:
    assert NAMED.keys() <= RULES.keys()
    assert all(0 <= right <= named for right, named in NAMED.values())
