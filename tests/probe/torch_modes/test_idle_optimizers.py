"""An optimizer that was made before the layers were replaced moves nothing, and the new layers are named."""

import pytest
from mindscope.watching import run_script

pytest.importorskip("torch", reason="PyTorch is not installed")

SCRIPT = """
import copy
import torch
from torch import nn

torch.manual_seed(0)


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def fit(model, optimizer, steps=60):
    for _ in range(steps):
        x = torch.randn(16, 3)
        loss = (model(x) - x[:, :1]).square().mean()
        {zeroed}.zero_grad()
        loss.backward()
        optimizer.step()
        {after}


if {has_teacher}:
    teacher = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    fit(teacher, torch.optim.SGD(teacher.parameters(), 0.1), 20)
student = Student()
{made}
fit(student, optimizer)
"""
ADAM = "optimizer = torch.optim.Adam(student.parameters())\n"
LOST = {
    "layers": f"{ADAM}student.body, student.head = nn.Linear(3, 8), nn.Linear(8, 1)",
    "the whole network": f"{ADAM}student = Student()",
    "a copy": f"{ADAM}student = copy.deepcopy(student)",
    "weights that are reset": f"{ADAM}for m in (student.body, student.head):\n"
    "    m.weight, m.bias = nn.Parameter(m.weight * 2), nn.Parameter(m.bias * 2)",
}


def _causes(tmp_path, made, *, has_teacher=True, zeroed="model", after="pass"):
    import mindscope as ms

    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(made=made, has_teacher=has_teacher, zeroed=zeroed, after=after))
    assert run_script(script, [], store=tmp_path / "runs") == 0
    store = ms.open_store(tmp_path / "runs")
    found = [one for run in store.runs() for one in store.findings(run.id)]
    return [(one.cause, one.site) for one in found if one.severity != "info"]


@pytest.mark.parametrize("has_teacher", [True, False])
@pytest.mark.parametrize("lost", LOST)
def test_a_network_that_its_optimizer_has_lost_is_told(tmp_path, lost, has_teacher):
    causes = _causes(tmp_path, LOST[lost], has_teacher=has_teacher, zeroed="optimizer" if has_teacher else "model")
    assert "parameter_not_in_optimizer" in {cause for cause, _ in causes}
    assert not has_teacher or ("parameter_not_in_optimizer", "student") in causes


@pytest.mark.parametrize(
    "options",
    [
        {"made": ADAM},
        {"made": ADAM, "zeroed": "optimizer"},
        {"made": "student.double().float()\n" + ADAM},
        {  # a placeholder for a schedule; the update is written out
            "made": "optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(2, 2))], 0.1)",
            "after": "[p.data.sub_(0.05 * p.grad) for p in model.parameters()]",
        },
    ],
)
def test_a_network_that_is_stepped_is_not(tmp_path, options):
    assert "parameter_not_in_optimizer" not in {cause for cause, _ in _causes(tmp_path, **options)}
