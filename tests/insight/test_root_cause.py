"""Which of several findings is the cause."""

from mindscope.insight import root_causes
from mindscope.storage import Finding


def finding(cause, step, phase=1, severity="error", site="", place=0):
    rule = cause.replace("_", "-")
    return Finding(rule, cause, severity, step, step, site, "", {}, "", "", order=(0, phase, place))


def causes(*findings):
    return [item.cause for item in root_causes(findings)]


def test_what_is_not_finite_explains_everything_later():
    assert causes(
        finding("non_finite_loss", 30, 2),
        finding("non_finite_activation", 30, 1, site="conv2"),
        finding("learning_rate_too_high", 31, 4),
        finding("dead_units", 40),
    ) == ["non_finite_activation"]


def test_a_rate_too_high_explains_the_nan_that_follows_and_not_the_one_before():
    assert causes(finding("learning_rate_too_high", 3, 4), finding("non_finite_activation", 9)) == [
        "learning_rate_too_high"
    ]
    assert causes(finding("learning_rate_too_high", 9, 4), finding("non_finite_activation", 3)) == [
        "non_finite_activation"
    ]


def test_a_missing_zero_grad_comes_before_the_rate_it_seems_to_be():
    assert causes(finding("missing_zero_grad", 30, 0), finding("learning_rate_too_high", 41, 4)) == [
        "missing_zero_grad"
    ]


def test_unrelated_facts_stand_side_by_side_in_order_of_appearance():
    assert causes(finding("non_finite_activation", 20), finding("frozen_parameter", 0, 0, "warning", "conv1")) == [
        "frozen_parameter",
        "non_finite_activation",
    ]


def test_notices_and_faults_of_the_monitor_are_no_causes():
    assert causes(finding("frozen_parameter", 0, 0, "info"), finding("monitor_fault", 0, 0, "warning")) == []


def test_at_most_three_are_named():
    assert len(causes(*(finding("frozen_parameter", 0, 0, site=f"m{at}") for at in range(9)))) == 3


def test_the_same_finding_on_another_rank_follows_the_first():
    one = finding("loss_spike", 5)
    other = Finding(**{name: getattr(one, name) for name in one.__slots__} | {"rank": 1})
    assert root_causes([other, one]) == (one,)
