"""The strangers' programs can be made, are what they say, and are judged by what is said of them."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from benchmarks.faults.outcome import Alarm
from benchmarks.strangers.__main__ import judged
from benchmarks.strangers.cases import StrangersCase, all_cases, switched_cases
from benchmarks.strangers.switched import switched
from benchmarks.zoo.trial import Cost, Watched

CASES = list(all_cases())
COST = Cost(1.0, 1.0, 1.0, "", 0, "")


def said(cause="", site="", severity="warning"):
    alarms = (Alarm("rule", cause, severity, site, 0, 5, 5),) if cause else ()
    return Watched(COST, "unhealthy" if cause else "healthy", alarms, alarms)


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_a_program_can_be_made(case):
    tree = ast.parse(case.text)
    calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert any(call.endswith((".backward", "autograd.grad")) for call in calls)
    original = StrangersCase(case.program).text
    assert (case.text == original) == (case.role == "healthy")


def test_there_are_enough_of_each():
    faults = [case for case in CASES if case.role == "fault"]
    assert len({case.program for case in CASES}) >= 19
    assert len(faults) >= 85
    assert sum(case.is_silent for case in faults) >= 0.75 * len(faults)
    assert len({case.title for case in CASES}) == len(CASES)


def test_causes_are_words_of_the_vocabulary():
    text = Path(__file__).parents[3].joinpath("docs", "causes.md").read_text(encoding="utf-8")
    words = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert {case.cause for case in CASES if case.cause} <= words


def test_a_piece_that_a_program_does_not_have_is_an_error():
    case = replace(CASES[0], name="wrong", edits=(("not a line of it\n", ""),))
    with pytest.raises(ValueError, match="expected 'not a line of it"):
        _ = case.text


def test_what_is_said_is_judged():
    fault = StrangersCase("vae", "f", "fault", True, "what", "data_leak", "model.encoder")
    runs = [
        (fault, said("data_leak", "encoder.0")),
        (replace(fault, name="g", is_silent=False), said("plateau", "decoder")),
        (replace(fault, name="h"), said()),
        (StrangersCase("vae"), said()),
        (StrangersCase("gan"), said("plateau")),
    ]
    found = judged(runs)
    values = {(row["case"], row["metric"]): (row["hits"], row["of"]) for row in found["results"]}
    assert values["faults", "detected"] == (2, 3)
    assert values["silent faults", "detected"] == (1, 2)
    assert values["faults with a word", "cause, first"] == (1, 3)
    assert values["faults of one module", "site"] == (1, 3)
    assert values["healthy and odd programs", "with a warning"] == (1, 2)
    assert found["missed"] == {"vae/h": ["what"]}
    assert found["misnamed"] == {"vae/g": ["data_leak, and said was", "plateau"]}
    assert found["false alarms"] == {"gan": ["plateau"]}


SWITCHED = [case for case in switched_cases() if case.switch == "on"]


@pytest.mark.parametrize("case", SWITCHED, ids=[case.title for case in SWITCHED])
def test_a_program_has_its_variant_behind_a_switch(case):
    tree = ast.parse(case.text)
    assert f"switches.variant == '{case.name}'" in ast.unparse(tree)
    on, off = (ast.unparse(_Settled(value).visit(ast.parse(case.text))) for value in (True, False))
    assert on != off


class _Settled(ast.NodeTransformer):
    """Takes one branch of every switch."""

    def __init__(self, value):
        self._value = value

    def visit_If(self, node):
        self.generic_visit(node)
        if "switches.variant" not in ast.unparse(node.test):
            return node
        taken = self._value != isinstance(node.test, ast.UnaryOp)
        return (node.body if taken else node.orelse) or None


def test_both_ways_of_a_switch_are_the_two_programs():
    original = "'''Text.'''\nimport sys\ndef f(x):\n    y = x + 1\n    return y\nfor i in range(3):\n    print(f(i))\n"
    variant = original.replace("x + 1", "x - 1").replace("    print(f(i))", "    z = f(i)\n    print(z)")
    text = switched(original, variant, "minus")
    for value, expected in ((True, variant), (False, original)):
        left = ast.unparse(_Settled(value).visit(ast.parse(text)))
        parts = [line for line in left.splitlines() if line and "parse" not in line]
        assert parts == [line for line in ast.unparse(ast.parse(expected)).splitlines() if line]
