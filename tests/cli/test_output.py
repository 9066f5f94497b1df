import json
from dataclasses import dataclass

import pytest
from mindscope.cli.output import add_row, age, as_json, console, print_json, sparkline, table


@dataclass(frozen=True, slots=True)
class _Point:
    step: int
    values: tuple[float, ...]


def test_numbers_that_json_lacks_become_words() -> None:
    assert as_json([float("nan"), float("inf"), float("-inf"), 1.5]) == ["NaN", "Infinity", "-Infinity", 1.5]


def test_a_dataclass_becomes_an_object() -> None:
    assert as_json({"point": _Point(3, (1.0, float("nan")))}) == {"point": {"step": 3, "values": [1.0, "NaN"]}}


def test_what_is_printed_is_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"loss": float("nan"), "name": "größer"})
    assert json.loads(capsys.readouterr().out) == {"loss": "NaN", "name": "größer"}


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (120, "2 min"), (7200, "2 h"), (172800, "2 d"), (-5, "0 s")]
)
def test_age_is_told_in_one_unit(seconds: float, text: str) -> None:
    assert age(1000.0, now=1000.0 + seconds) == text


def test_a_sparkline_spans_the_range_of_the_values() -> None:
    assert sparkline([0.0, 1.0, 2.0, 7.0]) == "▁▂▃█"


def test_a_constant_sparkline_is_flat() -> None:
    assert sparkline([3.0, 3.0]) == "▁▁"


def test_a_sparkline_marks_buckets_that_are_not_finite() -> None:
    assert sparkline([1.0, float("nan"), 2.0]) == "▁!█"
    assert sparkline([float("inf")] * 3) == "!!!"


def test_a_sparkline_is_never_wider_than_asked_and_may_be_empty() -> None:
    assert len(sparkline([float(value) for value in range(1000)], width=30)) == 30
    assert sparkline([]) == ""


def test_what_stands_in_brackets_stays_text(capsys: pytest.CaptureFixture[str]) -> None:
    listing = table("", "advice")
    add_row(listing, "pip install 'mindscope[torch]'")
    console().print(listing)
    assert "mindscope[torch]" in capsys.readouterr().out
