"""Other tools on the zoo's runs: attached from outside, read in their favour, beside our figures."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.faults.outcome import Alarm
from benchmarks.zoo.peers import _first_three, joined

_ROOT = Path(__file__).resolve().parents[3]
_PROGRAM = """import sys, torch
torch.manual_seed(int(sys.argv[1]))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.ones(2, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("result", loss.item())
"""
_TOOL = """import sys
from benchmarks.zoo import peer_program
from benchmarks.faults.outcome import Alarm

class Tool:
    def __init__(self, training):
        self.training, self.steps, self.is_closed = training, [], False
    def step_ends(self, step, loss):
        self.steps.append((step, loss == loss))
    def close(self, error=None):
        self.is_closed = True
    def alarms(self):
        words = f"{type(self.training.model).__name__} {self.steps} {self.is_closed}"
        return (Alarm("spike", "loss_spike", "warning", "", 0, 0, 0, words),)

peer_program.PEERS["tool"] = Tool
peer_program.main("tool", *sys.argv[1:])
"""


def test_a_tool_sees_the_network_and_every_step_with_its_loss(tmp_path):
    program, report, tool = tmp_path / "program.py", tmp_path / "report.json", tmp_path / "tool.py"
    program.write_text(_PROGRAM)
    tool.write_text(f"import sys; sys.path.insert(0, {str(_ROOT)!r})\n{_TOOL}")
    command = [sys.executable, str(tool), str(report), str(program), "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "result" in done.stdout
    (alarm,) = json.loads(report.read_text())
    assert alarm["explanation"] == "Linear [(0, True), (1, True), (2, True)] True"


def test_a_word_that_can_mean_the_truth_means_it():
    alarms = [Alarm("flow", cause, "warning", "", 0, 1, 1) for cause in ("vanishing_gradient", "exploding_gradient")]
    assert [root.cause for root in _first_three(alarms, "exploding_gradient")] == ["exploding_gradient"]
    assert [root.cause for root in _first_three(alarms, None)] == ["vanishing_gradient"]


def test_their_figures_stand_beside_ours():
    ours = [{"case": "faults", "metric": "detected", "value": 80.0, "peers": {}}]
    theirs = {"tool": [{"case": "faults", "metric": "detected", "value": 20.0}], "other": []}
    assert joined(ours, theirs)[0]["peers"] == {"tool": 20.0}
