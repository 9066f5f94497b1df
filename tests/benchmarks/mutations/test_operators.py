"""Every operator keeps the registry's promises, and one of each family breaks a small program."""

import ast
import re
import runpy
import sys

import pytest
from mindscope.insight import RULES

from benchmarks.mutations import OPERATORS, operator, write_mutant
from benchmarks.mutations.program import Program
from benchmarks.zoo.entries import ENTRIES

LEARNER = '''"""Fits a line, and walks to a reward."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
inputs = torch.randn(64, 3)
targets = inputs.sum(1, keepdim=True) + 0.01 * torch.randn(64, 1)


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.out = nn.Linear(3, 1)

    def forward(self, x):
        x = self.fc(x)
        return self.out(x)


model = Line()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
gamma, rewards, returned = 0.9, [1.0, 1.0, 1.0], 0.0
for step in range(40):
    output = model((inputs - inputs.mean()) / inputs.std())
    loss = F.mse_loss(output, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for reward in rewards:
    returned = reward + gamma * returned
result = F.mse_loss(model((inputs - inputs.mean()) / inputs.std()), targets).item() - 0.001 * returned
'''
TAXONOMIES = "DeepCrime|Humbatova|Islam|Zhang|defect4ML|gDefects4DL|muPRL|TrainCheck|TheDeepChecker"
#: An operator of each family that leaves no global trace, and the text that it must leave.
ONE_EACH = {
    "shuffled-labels": "planted.shuffled(targets)",
    "negated-loss": "(-loss).backward()",
    "detached-layer": "self.fc(x).detach()",
    "rate-over-1000": "lr=0.001 * 0.1",
    "no-discount": "reward + 0.0 * returned",
}


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "learner.py"
    path.write_text(LEARNER)
    return path


def sources():
    return {entry.name: entry.program.read_text() for entry in ENTRIES.values()}


def test_there_are_as_many_operators_as_were_promised():
    assert len(OPERATORS) >= 45
    assert {one.family for one in OPERATORS.values()} == {"data", "loss", "model", "optimizer", "reinforcement"}


@pytest.mark.parametrize("one", OPERATORS.values(), ids=OPERATORS)
def test_an_operator_says_what_it_does_where_it_is_from_and_what_should_be_said_of_it(one):
    assert one.summary.endswith(".")
    assert re.search(
        r"DeepCrime|Humbatova|Islam|Zhang|defect4ML|gDefects4DL|muPRL|TrainCheck|TheDeepChecker", one.source
    )
    assert one.cause is None or one.cause in {rule.cause for rule in RULES.values()}
    assert one.is_planted == one.name.startswith("planted-")


@pytest.mark.parametrize("one", OPERATORS.values(), ids=OPERATORS)
def test_every_change_of_a_program_of_the_zoo_is_another_program_of_python(one):
    found = 0
    for name, source in sources().items():
        for change in one.changes(source):
            mutated = Program(source).edited(change.edits)
            ast.parse(mutated, filename=name)
            assert mutated != source
            found += 1
    assert found, "an operator that fits no program of the zoo measures nothing"


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(ValueError, match="'negated-loss' is there twice"):
        operator("negated-loss", "loss", None, "Islam 2019")(lambda program: iter(()))


@pytest.mark.parametrize(("name", "text"), ONE_EACH.items(), ids=ONE_EACH)
def test_a_mutant_of_each_family_runs_and_is_worse(name, text, program, tmp_path, monkeypatch):
    (tmp_path / "mutant").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "mutant")
    monkeypatch.delitem(sys.modules, "planted", raising=False)
    good = runpy.run_path(str(program))["result"]
    mutant = write_mutant(program, tmp_path / "mutant", OPERATORS[name])
    assert text in mutant.script.read_text()
    assert not runpy.run_path(str(mutant.script))["result"] <= good  # NaN is worse, too
    assert mutant.was_reached


def test_a_detached_layer_is_the_site_at_fault(program, tmp_path):
    assert write_mutant(program, tmp_path / "mutant", OPERATORS["detached-layer"]).attribute == "fc"
