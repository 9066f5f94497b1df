"""Every rule of the table keeps its own examples and the promises of the table."""

import re
from pathlib import Path

import pytest
from mindscope.insight import RULES, Recording, Rule
from mindscope.insight.engine import Engine
from mindscope.insight.rule_catalogue import rules_page
from mindscope.storage import Finding

CASES = [
    pytest.param(rule, recording, id=f"{rule.name}-{at}")
    for rule in RULES.values()
    for at, recording in enumerate(rule.fires_on)
]
HEALTHY = [
    pytest.param(rule, recording, id=f"{rule.name}-{at}")
    for rule in RULES.values()
    for at, recording in enumerate(rule.silent_on)
]


def findings_of(rules: dict[str, Rule], recording: Recording) -> tuple[Finding, ...]:
    engine = Engine(rules, config=recording.config)
    engine.learn_structure(recording.structure)
    for record in recording.records():
        engine.observe(record)
    return engine.findings


@pytest.mark.parametrize(("rule", "recording"), CASES)
def test_a_rule_fires_on_its_examples(rule, recording):
    found = findings_of({rule.name: rule}, recording)
    assert {item.cause for item in found} == {rule.cause}


@pytest.mark.parametrize(("rule", "recording"), HEALTHY)
def test_a_rule_is_silent_on_its_counterexamples(rule, recording):
    assert findings_of({rule.name: rule}, recording) == ()


@pytest.mark.parametrize(("rule", "recording"), CASES)
def test_a_finding_speaks_to_an_engineer(rule, recording):
    for item in findings_of({rule.name: rule}, recording):
        assert len(item.explanation) > 40
        assert len(item.advice) > 40
        assert item.evidence
        assert all(isinstance(value, float) for value in item.evidence.values())
        assert 0 <= item.first_step <= item.step
        assert 0 < item.confidence <= 1


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_stands_in_a_file_of_its_name(rule):
    assert rule.check.__module__ == f"mindscope.insight.rules.{rule.cause}"
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)


def test_the_catalogue_is_complete_and_sorted():
    folder = Path(__import__("mindscope.insight.rules").insight.rules.__file__).parent
    files = sorted(path.stem for path in folder.glob("[a-z]*.py"))
    imported = [rule.cause for rule in RULES.values()]
    missing = sorted({*files} - {*imported})
    assert imported == files, f"import {missing or 'the rules in alphabetical order'} in insight/rules/__init__.py"


def test_the_page_of_the_catalogue_is_current():
    page = Path(__import__("mindscope").__file__).parent / "docs" / "catalogue" / "rules.md"
    assert page.read_text(encoding="utf-8") == rules_page(), "run: python -m mindscope.insight.rule_catalogue"


def test_the_page_of_causes_lists_each_cause_once_in_order():
    page = Path(__import__("mindscope").__file__).parent / "docs" / "causes.md"
    listed = re.findall(r"^\| `(\w+)` \|", page.read_text(encoding="utf-8"), re.M)
    assert listed == [*sorted({rule.cause for rule in RULES.values()} - {"unknown"}), "unknown"]
