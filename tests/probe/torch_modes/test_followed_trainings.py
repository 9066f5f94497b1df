"""A script that goes on to train another model: that one has a run of its own, behind the first one's."""

import pytest
from mindscope.watching import AFTER, run_script

pytest.importorskip("torch", reason="PyTorch is not installed")

SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)


def fit(model, steps, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(steps):
        x = torch.randn(16, 3)
        loss = (model(x) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return optimizer


first = nn.Linear(3, 1)
others = [nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)) for _ in range(4)]
made = fit(first, 20)
{rest}
"""


def _runs(tmp_path, rest):
    """Run the script and return its runs, the oldest first."""
    import mindscope as ms

    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(rest=rest))
    assert run_script(script, [], store=tmp_path / "runs") == 0
    store = ms.open_store(tmp_path / "runs")
    return store, [*reversed(store.runs())]


def test_a_student_behind_its_teacher(tmp_path):
    store, (teacher, student) = _runs(tmp_path, "fit(others[0], 100)")
    assert student.tags == {AFTER: teacher.id}
    assert (teacher.state, student.state) == ("finished", "finished")
    assert len(store.series(teacher.id, "", "scalar/loss").values) == 20
    assert len(store.series(student.id, "", "scalar/loss").values) == 60  # the first 40 tell that it trains alone
    assert len(store.series(student.id, "1.weight", "update/l2_norm").values) == 60


def test_following_changes_nothing(run_alike):
    run_alike(
        """
def fit(model, wanted, steps):
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(steps):
        x = torch.randn(16, 3)
        loss = functional.mse_loss(model(x), wanted(x).detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model
teacher = fit(net(3, 8, 2), lambda x: x[:, :2].sin(), 20)
student = fit(nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1), nn.Linear(4, 2)), teacher, 90)
trained = [teacher, student]
losses.append(torch.rand(1).item())
"""
    )


@pytest.mark.parametrize(
    "rest",
    [
        "for _ in range(30): fit(others[0], 3, fit(first, 3, made) and None)",  # by turns
        "for _ in range(8): [fit(other, 5) for other in others]",  # four clients
        "fit(others[0], 39)",
    ],
)
def test_trainings_that_are_not_followed(tmp_path, rest):
    _, runs = _runs(tmp_path, rest)
    assert len(runs) == 1


def test_of_many_trainings_the_first_ones_are_followed(tmp_path):
    store, runs = _runs(tmp_path, "for other in others: fit(other, 60)")
    assert [run.tags.get(AFTER, "") for run in runs] == ["", runs[0].id, runs[1].id]
    # what a run that joins late sees first is trained already
    assert [bool(store.events(run.id, kind="initial_weight")) for run in runs] == [True, False, False]


def test_a_model_that_the_script_watches_itself_is_left_to_it(tmp_path):
    rest = (
        f"import mindscope as ms\nwith ms.watch(others[0], run='own', store={str(tmp_path / 'runs')!r}):\n"
        "    fit(others[0], 60)\nfit(first, 5, made)"
    )
    _, runs = _runs(tmp_path, rest)
    assert {run.name: run.tags for run in runs} == {"train": {}, "own": {}}


def test_a_store_that_takes_no_second_run_stops_no_script(tmp_path, monkeypatch):
    from mindscope import watching
    from mindscope.storage import StoreError

    begin, begun = watching.begin, []

    def once(*arguments, **options):
        if begun:
            raise StoreError("the disk is full")
        begun.append(True)
        return begin(*arguments, **options)

    monkeypatch.setattr(watching, "begin", once)
    _, runs = _runs(tmp_path, "fit(others[0], 60)")
    assert len(runs) == 1


ASKED = """
teacher, student = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1)), others[0]
kept = fit(teacher, 60)
teacher.{mode}()
optimizer = torch.optim.SGD(student.parameters(), 0.1)
for _ in range(100):
    x = torch.randn(16, 3)
    with torch.no_grad():
        wanted = teacher(x)
    loss = (student(x) - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_a_teacher_that_was_trained_before_is_asked_in_evaluation_mode(tmp_path, mode):
    store, (*_, student) = _runs(tmp_path, ASKED.format(mode=mode))
    assert len(store.structure(student.id).parameters) == 4  # without those of the teacher
    name = "asked_networks_are_in_evaluation_mode"
    outcomes = {one.data["outcome"] for one in store.events(student.id, kind="check") if one.data["check"] == name}
    assert outcomes == {"held" if mode == "eval" else "broken"}
    assert ("wrong_train_eval_mode" in {one.cause for one in store.findings(student.id)}) == (mode == "train")
