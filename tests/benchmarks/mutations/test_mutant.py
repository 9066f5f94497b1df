"""Mutants in a process of their own: what is planted, and modules that are changed at import."""

import subprocess
import sys

import pytest

from benchmarks.mutations import OPERATORS, write_module_mutant, write_mutant

CLIMBER = """from __future__ import annotations
import torch
weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], lr=0.1)
(weight**2).sum().backward()
optimizer.step()
print("result", weight.item())
"""
BORROWED = """def fit(loss):
    loss.backward()
"""


def result_of(script):
    found = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    return float(found.stdout.split()[-1])


def test_what_is_planted_comes_after_future_imports_and_turns_the_step_round(tmp_path):
    program = tmp_path / "climber.py"
    program.write_text(CLIMBER)
    mutant = write_mutant(program, tmp_path / "mutant", OPERATORS["planted-negated-loss"])
    assert not mutant.was_reached
    assert result_of(mutant.script) == pytest.approx(1.2)
    assert mutant.was_reached


def test_a_module_is_changed_at_import_and_the_program_is_not(tmp_path):
    (tmp_path / "mutant").mkdir()
    (tmp_path / "mutant" / "borrowed.py").write_text(BORROWED)
    program = tmp_path / "climber.py"
    program.write_text(
        CLIMBER.replace("(weight**2).sum().backward()", "import borrowed; borrowed.fit((weight**2).sum())")
    )
    mutant = write_module_mutant(program, tmp_path / "mutant", OPERATORS["negated-loss"], "borrowed", BORROWED)
    assert mutant.line == "borrowed:2: -loss goes backward"
    assert result_of(mutant.script) == pytest.approx(1.2)
    assert mutant.was_reached


def test_a_module_mutant_that_needs_planted_code_is_refused(tmp_path):
    with pytest.raises(ValueError, match="'planted-no-step' plants code"):
        write_module_mutant(tmp_path, tmp_path, OPERATORS["planted-no-step"], "borrowed", "import torch\n")


def test_an_operator_without_a_place_says_so(tmp_path):
    program = tmp_path / "climber.py"
    program.write_text(CLIMBER)
    with pytest.raises(ValueError, match=r"'kept-gradients' finds no place in climber\.py"):
        write_mutant(program, tmp_path / "mutant", OPERATORS["kept-gradients"])


def test_the_choice_of_a_place_goes_round(tmp_path):
    program = tmp_path / "twice.py"
    program.write_text("first.backward()\nsecond.backward()\n")
    lines = [write_mutant(program, tmp_path / "mutant", OPERATORS["negated-loss"], choice=n).line for n in range(3)]
    assert [line.split(":")[1] for line in lines] == ["1", "2", "1"]
