"""A run records the text of its program, and a diagnosis beside a good run names the line that was changed."""

import subprocess
import sys

import pytest
from mindscope.probe.facts.environment import without_secrets
from mindscope.storage import open_store

pytest.importorskip("torch")

SCRIPT = """
import torch
from parts import Net

torch.manual_seed(0)
model, loss_fn = Net(), torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(64, 6)
y = (x.sum(1) > 0).long()
for step in range(30):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
"""
PARTS = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(6, 16), nn.Linear(16, 2)

    def forward(self, x):
        return self.two(self.one(x).relu())
"""


def watch(folder, name, script, parts):
    place = folder / name
    place.mkdir()
    (place / "train.py").write_text(script)
    (place / "parts.py").write_text(parts)
    command = [sys.executable, "-m", "mindscope", "run", "--store", str(folder / "store"), "--name", name, "train.py"]
    subprocess.run(command, cwd=place, check=True, capture_output=True)


def test_the_changed_line_of_a_module_beside_the_script_is_named(tmp_path):
    watch(tmp_path, "good", SCRIPT, PARTS)
    watch(tmp_path, "bad", SCRIPT, PARTS.replace("self.one(x).relu()", "self.one(x).detach().relu()"))
    with open_store(str(tmp_path / "store")) as store:
        (event,) = store.events(store.find_run("good").id, kind="program_text")
        assert event.data == {"script": "train.py", "files": {"train.py": SCRIPT, "parts.py": PARTS}}
    command = [sys.executable, "-m", "mindscope", "diagnose", "bad", "--reference", "good", "--store"]
    told = subprocess.run([*command, str(tmp_path / "store")], check=False, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert "parts.py:10 is `return self.two(self.one(x).detach().relu())`" in told.stdout


@pytest.mark.parametrize(
    ("line", "recorded"),
    [
        ('wandb.login(key="0123456789abcdef0123")\n', 'wandb.login(key="***")\n'),
        ("login('hf_AbCdEfGh12345678')\n", "login('***')\n"),
        ('API_TOKEN = "a1b2c3d4e5f6g7"', 'API_TOKEN = "***"'),
        ('connect("postgresql://me:hunter2@host/db")', 'connect("postgresql://me:***@host/db")'),
        ('model = load("resnet18.a1_in1k")\n', 'model = load("resnet18.a1_in1k")\n'),
        (
            "loss = loss_fn(model(x, key_padding_mask=mask), y)\n",
            "loss = loss_fn(model(x, key_padding_mask=mask), y)\n",
        ),
    ],
)
def test_secrets_in_the_text_are_not_recorded(line, recorded):
    assert without_secrets(line) == recorded
