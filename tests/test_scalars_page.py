"""The page on scalars names the rules that read them."""

import re
from pathlib import Path

import pytest
from mindscope.insight import RULES, Rule

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "scalars.md").read_text()
#: The last cell of the row of each name, `read by`.
READ_BY = {
    name: cells[-1]
    for cells in (line.strip("|").split(" | ") for line in PAGE.splitlines() if line.startswith("|"))
    for name in re.findall(r"`([^`]+)`", cells[0])
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_is_named_at_every_scalar_that_it_needs(rule: Rule) -> None:
    for name in (need.removeprefix("scalar/") for need in rule.needs if need.startswith("scalar/")):
        assert name in READ_BY, f"docs/scalars.md lacks a row for the scalar {name!r}"
        said = READ_BY[name]
        assert rule.name in said or "most rules" in said, f"add {rule.name} to 'read by' of {name!r} in docs/scalars.md"
