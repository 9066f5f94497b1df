"""Text of others is shown without what would move the cursor or colour the terminal."""

import pytest
from mindscope.storage.plain_text import one_line, without_escapes


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [1, 2] words", "plain [1, 2] words"),
        ("\x1b[31mred\x1b[0m and \x1b[1;4mbold\x1b[m", "red and bold"),
        ("\x1b]0;title\x07behind", "behind"),
        ("\x1b[2K\x1b[1Aup", "up"),
        ("bell\x07 null\x00", "bell null"),
    ],
)
def test_escape_codes_are_left_out(text, shown):
    assert without_escapes(text) == shown


def test_lines_become_one_and_a_long_one_is_cut():
    assert one_line("a\n  b\tc", 10) == "a b c"
    assert one_line("abcdef", 3) == "abc ..."
