"""Shares in words."""

import pytest
from mindscope.storage.percent import percent


@pytest.mark.parametrize(
    ("share", "written"),
    [
        (0.0, "0%"),
        (1.0, "100%"),
        (0.374, "37%"),
        (0.995, "99.5%"),
        (0.9962, "99.6%"),
        (0.9996, "99.96%"),
        (0.9999999, "over 99.999%"),
        (0.004, "0.4%"),
        (0.00004, "0.004%"),
        (1e-9, "under 0.001%"),
        (2.5, "250%"),
        (-0.2, "-20%"),
    ],
)
def test_a_share_is_all_or_nothing_only_where_it_is(share: float, written: str) -> None:
    assert percent(share) == written


@pytest.mark.parametrize(("share", "written"), [(1.0, "100.0%"), (0.9997, "99.97%"), (0.374, "37.4%"), (0.0, "0.0%")])
def test_decimals_are_written_in_any_case(share: float, written: str) -> None:
    assert percent(share, decimals=1) == written
