"""A finding of unknown cause is no second finding where a rule knows what is wrong."""

from dataclasses import replace

import pytest
from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.recording import chain
from mindscope.insight.root_causes import folded
from mindscope.storage import Event

CALLED = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})
LOSSES = (*(2.0 * 0.95**step for step in range(30)), *(2.6,) * 22)


def _findings(*, is_cleared):
    left = [Event("gradient_before_forward", step, data={"parameters": 2, "l2_norm": 0.5}) for step in range(3, 8)]
    recording = Recording(
        {"scalar/loss": LOSSES, "one.weight gradient/l2_norm": (0.5,) * len(LOSSES)},
        chain("one:Dense", "two:Dense"),
        (CALLED, *(() if is_cleared else left)),
    )
    engine = Engine({name: RULES[name] for name in ("missing-zero-grad", "unknown")})
    engine.learn_structure(recording.structure)
    for record in recording.records():
        engine.observe(record)
    return engine.findings


@pytest.mark.parametrize("is_cleared", [True, False])
def test_a_lost_loss_is_a_warning_only_where_no_fact_explains_it(is_cleared):
    found = {finding.cause: finding.severity for finding in _findings(is_cleared=is_cleared)}
    facts = {} if is_cleared else {"missing_zero_grad": "error"}
    assert found == {**facts, "unknown": "warning" if is_cleared else "info"}


@pytest.mark.parametrize("severity", ["info", "warning"])
def test_a_notice_of_last_resort_is_told_with_what_explains_it(severity):
    fact, unknown = _findings(is_cleared=False)
    assert folded((fact, replace(unknown, severity=severity))) == ((fact, (replace(unknown, severity=severity),)),)
