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
        ("LayerNorm(width)", True, "held"),
    ],
)
def test_the_mode_of_a_teacher(run_alike, part, is_trained, outcome):
    store, found, _ = run_alike(TRAINING.format(part=part, is_trained=is_trained))
    told = {one.data["check"]: one.data["outcome"] for one in store.events(found.id, kind="check")}
    assert told.get("asked_networks_are_in_evaluation_mode") == outcome
    named = {one.site for one in store.findings(found.id) if one.cause == "wrong_train_eval_mode"}
    assert ("teacher" in named) == (outcome == "broken")
