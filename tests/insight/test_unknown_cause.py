"""A finding without a known cause says what followed, what was ruled out and by which rule, and what to try next."""

from dataclasses import replace

import pytest
from mindscope.insight import RULES, Diagnosis, render_markdown, render_text
from mindscope.storage import Finding

STRANGE = Finding(
    "unknown",
    "unknown",
    "info",
    400,
    200,
    "",
    "gradient/l2_norm",
    {"layers": 6.0},
    "unusual, cause unknown: since step 200 the gradient of 6 of 6 layers (one, two, three and 3 more) is away",
    "look at what changed at this step",
)
BEFORE = replace(STRANGE, rule="dead-units", cause="dead_units", step=100, first_step=100, explanation="they died")
AFTER = replace(BEFORE, rule="overfitting", cause="overfitting", step=300, first_step=300)
RUN = ("exploding-gradient", "saturated-activation", "dead-units")
RULES_NOT_RUN = {"data-leak": "never recorded"}


def _diagnosis(finding, *, is_root):
    findings = (BEFORE, finding, AFTER)
    roots = (finding,) if is_root else ()
    return Diagnosis("run-1", "unhealthy", roots, findings, reasons=RULES_NOT_RUN, rules_run=RUN)


@pytest.mark.parametrize("is_root", [False, True], ids=["a notice", "a root cause"])
@pytest.mark.parametrize("render", [render_text, render_markdown])
def test_the_report_says_all_that_is_known(is_root, render):
    finding = replace(STRANGE, severity="warning") if is_root else STRANGE
    text = render(_diagnosis(finding, is_root=is_root))
    assert "nknown at (model) since step 200, seen at step 400" in text
    assert "one, two, three and 3 more" in text
    assert "hat followed: overfitting at (model) since step 300" in text
    assert "in the forward pass: saturated-activation" in text
    assert "in the backward pass: exploding-gradient" in text
    assert "data-leak" in text.partition("ot checked: ")[2].partition("ry next: ")[0]
    assert "--reference GOOD" in text.partition("ry next: ")[2]
    ruled_out = text.partition("uled out, by the rule")[2].partition("ot checked")[0]
    assert "dead-units" not in ruled_out  # which was found
    assert {name for name in RULES if f" {name}" in ruled_out} <= set(RUN)


def test_where_no_rule_saw_enough_nothing_is_ruled_out():
    text = render_text(Diagnosis("run-1", "undetermined", (), (STRANGE,)))
    assert "no sign of: nothing was looked for: too little was recorded for any rule" in text
    assert "what followed: nothing that any rule reports" in text


def test_a_run_that_was_compared_with_a_good_one_is_not_told_to_compare():
    told = render_text(replace(_diagnosis(STRANGE, is_root=False), reference="good"))
    assert "--reference" not in told
    assert "change one thing at a time" in told
