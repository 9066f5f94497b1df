"""Words between backticks."""

from dash import html
from mindscope.dashboard.components.page_parts import coded


def test_what_stands_between_backticks_is_code():
    before, code, after = coded("run `mindscope diagnose` again")
    assert (before, code.children, after) == ("run ", "mindscope diagnose", " again")
    assert isinstance(code, html.Code)


def test_text_without_a_pair_of_backticks_stays_as_it_is():
    assert coded("plain") == ["plain"]
    assert coded("a ` alone") == ["a ` alone"]
    assert coded("") == []
