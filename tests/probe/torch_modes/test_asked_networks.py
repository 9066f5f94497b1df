"""Teachers: networks that are asked and not trained."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

TRAINING = """
def made(width):
    return nn.Sequential(nn.Linear(3, width), nn.{part}, nn.ReLU(), nn.Linear(width, 2))
teacher, student = made(8), made(6)
teacher.train({is_trained})
optimizer = torch.optim.Adam(student.parameters(), 1e-2)
for step in range(30):
    x = torch.randn(16, 3)
    with torch.no_grad():
        wanted = teacher(x)
    loss = functional.mse_loss(student(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [student, teacher]
"""


@pytest.mark.parametrize(
    ("part", "is_trained", "outcome"),
    [
        ("Dropout(0.2)", True, "broken"),
        ("BatchNorm1d(width)", True, "broken"),
        ("Dropout(0.2)", False, "held"),
        ("LayerNorm(width)", True, None),  # the mode has no effect on it
    ],
)
def test_the_mode_of_a_teacher(run_alike, part, is_trained, outcome):
    store, found, _ = run_alike(TRAINING.format(part=part, is_trained=is_trained))
    told = {one.data["check"]: one.data["outcome"] for one in store.events(found.id, kind="check")}
    assert told.get("asked_networks_are_in_evaluation_mode") == outcome
    named = {one.site for one in store.findings(found.id) if one.cause == "wrong_train_eval_mode"}
    assert ("teacher" in named) == (outcome == "broken")


SCALED = """
teacher = nn.Sequential(nn.Linear(3, 8), nn.{norm}(8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(teacher.parameters(), 1e-2)
for step in range(60):
    x = torch.randn(32, 3)
    loss = functional.mse_loss(teacher(x), x[:, :2].sin())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
del optimizer
teacher.eval()
student = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2))
optimizer = torch.optim.Adam(student.parameters(), 1e-2)
for step in range(100):
    x = torch.randn(32, 3) * {scale} + {mean}
    with torch.no_grad():
        wanted = teacher({given})
    loss = functional.mse_loss(student((x - {mean}) / {scale}), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [student, teacher]
"""


@pytest.mark.parametrize(
    ("norm", "scale", "mean", "given", "outcome"),
    [
        ("BatchNorm1d", 60.0, 100.0, "x", "broken"),
        ("BatchNorm1d", 0.01, 0.0, "x", "broken"),
        ("BatchNorm1d", 60.0, 100.0, "(x - 100.0) / 60.0", "held"),
        ("BatchNorm1d", 1.5, 0.5, "x", "held"),  # data from elsewhere
        ("LayerNorm", 60.0, 100.0, "x", None),  # nothing tells what it was trained on
    ],
)
def test_a_teacher_that_is_asked_with_inputs_of_another_scale(tmp_path, norm, scale, mean, given, outcome):
    import mindscope as ms
    from mindscope.watching import run_script

    script = tmp_path / "train.py"
    words = SCALED.format(norm=norm, scale=scale, mean=mean, given=given)
    script.write_text(f"import torch\nfrom torch import nn\nfrom torch.nn import functional\nlosses = []\n{words}")
    assert run_script(script, [], store=tmp_path / "runs") == 0
    store = ms.open_store(tmp_path / "runs")
    runs = list(store.runs())
    events = [event for run in runs for event in store.events(run.id, kind="check")]
    told = {event.data["check"]: event.data["outcome"] for event in events}
    assert told.get("asked_networks_get_inputs_as_in_their_training") == outcome
    named = {(one.cause, one.site) for run in runs for one in store.findings(run.id)}
    assert (("unnormalized_input", "teacher") in named) == (outcome == "broken")
