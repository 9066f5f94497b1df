"""Writes the page of all rules, `docs/catalogue/rules.md`: `python -m mindscope.insight.rule_catalogue`."""

from inspect import cleandoc
from pathlib import Path

from .rule import Rule
from .rules import RULES

_PHASES = ("configuration", "forward", "loss", "backward", "optimizer")
_HEAD = """# Rules

Generated from the table of rules by `python -m mindscope.insight.rule_catalogue`; do not edit it by hand. A *fact*
needs no threshold, or only counts; every other threshold names its source. The field `rules_not_run` of a diagnosis
lists the rules whose needs were recorded too rarely or not at all. A run is healthy only if every *essential* rule has
run.
"""


def rules_page() -> str:
    """Return the catalogue page as Markdown: one table, then one section per rule with its docstring."""
    rows = [
        f"| [{rule.name}](#{rule.name}) | `{rule.cause}` | {'fact' if rule.is_fact else 'threshold'} "
        f"| {_PHASES[rule.phase]} | {', '.join(f'`{need}`' for need in rule.needs)} | {rule.warm_up} "
        f"| {'yes' if rule.essential else ''} |"
        for rule in RULES.values()
    ]
    table = ["| rule | cause | kind | phase | needs | records | essential |", "|---|---|---|---|---|---|---|", *rows]
    return "\n".join([_HEAD, *table, *(_section(rule) for rule in RULES.values()), ""])


def _section(rule: Rule) -> str:
    return f"\n## {rule.name}\n\n{cleandoc(rule.text)}"


if __name__ == "__main__":
    (Path(__file__).parents[1] / "docs" / "catalogue" / "rules.md").write_text(rules_page(), encoding="utf-8")
