"""The line in which a person writes a condition."""

import pytest
from mindscope.storage import InvalidName
from mindscope.storage.watch_conditions import WatchCondition, parse_condition

UNDERSTOOD = {
    "gradient/l2_norm @ decoder.* > 10 for 3 steps": ("gradient", "l2_norm", "decoder.*", ">", 10.0, 3),
    "scalar/loss>=4": ("scalar", "loss", "*", ">=", 4.0, 1),
    "optimizer/exp_avg/max @ * < -1e-3": ("optimizer/exp_avg", "max", "*", "<", -1e-3, 1),
    "weight/zeros @ head.weight != 0 for 1 step": ("weight", "zeros", "head.weight", "!=", 0.0, 1),
    "unchanged weight @ encoder.* for 5 steps": ("weight", "", "encoder.*", "unchanged", 0.0, 5),
    "any nan @ decoder.*": ("", "", "decoder.*", "nan", 0.0, 1),
    "non-finite": ("", "", "*", "non-finite", 0.0, 1),
}


@pytest.mark.parametrize("text", UNDERSTOOD)
def test_a_line_says_what_is_compared_where_and_for_how_long(text: str) -> None:
    one = parse_condition(text)
    assert (one.subject, one.statistic, one.sites, one.test, one.low, one.steps) == UNDERSTOOD[text]


def test_a_range_has_two_bounds() -> None:
    one = parse_condition("weight/max @ *.bias outside [-1, 2.5]")
    assert one == WatchCondition(
        "weight/max @ *.bias outside [-1, 2.5]", "outside", "weight", "max", "*.bias", -1.0, 2.5
    )


def test_a_change_is_told_from_a_value() -> None:
    assert parse_condition("change of weight/l2_norm @ head.* < 1e-7").is_change
    assert not parse_condition("weight/l2_norm @ head.* < 1e-7").is_change


def test_blanks_mean_nothing() -> None:
    assert parse_condition("  gradient/mean   @ *  > 1 ") == parse_condition("gradient/mean @ * > 1")


REFUSED = {
    "gradient/l2_norm is big": "must read like",
    "gradients/l2_norm @ * > 1": "no known subject",
    "unchanged weigth @ *": "did you mean 'weight'",
    "scalar/loss @ head > 1": "scalars have none",
    "weight/max @ * inside [2, 1]": "swap its ends",
    "nan @ * for 0 steps": "1 step or more",
    "": "must read like",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text or "nothing")
def test_what_is_not_understood_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(InvalidName, match=REFUSED[text]):
        parse_condition(text)
