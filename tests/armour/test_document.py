"""The programs of the page about armour run, one after the other, and say what the page says of them."""

import re
from pathlib import Path

from mindscope.framework import set_seed

PAGE = Path(__file__).parents[2] / "docs" / "armour.md"


def test_the_programs_of_the_page_run(capsys):
    set_seed(0)
    names: dict = {}
    for program in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        exec(compile(program, str(PAGE), "exec"), names)
    said = capsys.readouterr().out
    assert "queries-exhausted" in said
    assert "5% of the range" in said
    lines = ("accuracy under attack", "hop-skip-jump: ", "'MR': ", "next class, guessed", "squeezed: ", "are flagged")
    assert all(line in said for line in lines), said
