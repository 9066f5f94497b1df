"""A state of which no name fits is loaded by nobody: where `strict=False` hides it, the diagnosis does not."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

TRAINING = """
def made(width):
    return nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 2))
saved = {{{key}: value for key, value in made(8).state_dict().items()}}
teacher, student = made(8), made(6)
teacher.load_state_dict(saved, strict=False)
{further}
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


def _found(run_alike, key, further=""):
    store, run, _ = run_alike(TRAINING.format(key=key, further=further))
    told = [one.data for one in store.events(run.id, kind="check") if one.data["check"] == "something_is_loaded"]
    return told, [one for one in store.findings(run.id) if one.cause == "resume_mismatch"]


def test_a_prefix_that_hides_everything_is_named(run_alike):
    told, findings = _found(run_alike, "'module.' + key")
    assert [(one["outcome"], one["numbers"]["given"]) for one in told] == [("broken", 4.0)]
    (finding,) = findings
    assert "none of 4 tensors was loaded: they are named like 'module.0.weight'" in finding.explanation
    assert finding.severity == "warning"


@pytest.mark.parametrize(
    ("key", "further"),
    [
        ("key", ""),
        ("key.replace('2.', 'head.')", ""),  # another head, as in every fine-tuning
        ("'module.' + key", "teacher.load_state_dict({key[7:]: value for key, value in saved.items()})"),
    ],
)
def test_what_is_loaded_in_part_or_afterwards_is_not(run_alike, key, further):
    assert _found(run_alike, key, further) == ([], [])
