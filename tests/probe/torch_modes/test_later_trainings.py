"""Networks that a script trains behind the first one: the executable checks look at them, and the run says the rest."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

FUNCTIONS = """
def fit(model, batches, loss_of):
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for step in range(batches):
        x = torch.randn(8, 3)
        loss = loss_of(model, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model
"""
STUDENT = """
class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)
    def forward(self, x):
        hidden = self.inner(x)
        return hidden - hidden.mean(0) if {mixes} else hidden
def main():
    teacher = fit(net(3, 6, 2), 12, lambda model, x: (model(x) - x[:, :2]).square().mean())
    def distilled(model, x):
        with torch.no_grad():
            wanted = teacher(x)
        return functional.mse_loss(model(x), wanted)
    return [teacher, fit(Student(), 30, distilled)]
trained = main()
losses.append(torch.rand(1).item())
"""


def checks_of(store, found, site):
    events = store.events(found.id, kind="check")
    return {event.data["check"]: event.data["outcome"] for event in events if event.site == site}


@pytest.mark.parametrize("mixes", [False, True])
def test_a_student_is_checked_behind_its_teacher(run_alike, mixes):
    store, found, losses = run_alike(FUNCTIONS + STUDENT.format(mixes=mixes))
    assert store.series(found.id, "", "scalar/loss").values.tolist() == pytest.approx(losses[:12])
    (event,) = store.events(found.id, kind="later_training")
    assert (event.site, event.data) == (
        "student",
        {"networks": "student (Student)", "parameters": 2, "watched": "Sequential"},
    )
    checks = checks_of(store, found, "student")
    assert checks["samples_are_independent"] == ("broken" if mixes else "held")
    assert checks["input_is_used"] == "held"
    serious = {(one.cause, one.site) for one in store.findings(found.id) if one.severity != "info"}
    assert serious == ({("sample_mixing", "student")} if mixes else set())


FOLDS = """
import gc, weakref
alive = []
for fold in range(4):
    model = net(3, 6, 1)
    alive.append(weakref.ref(model))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range({steps_of_a_fold}):
        loss = functional.mse_loss(model(torch.randn(8, 3)), torch.randn(8, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
del optimizer, loss
gc.collect()
losses.append(sum(one() is not None for one in alive[1:]))  # the first one is watched
trained = [model]
"""


@pytest.mark.parametrize("steps_of_a_fold", [3, 30])
def test_folds_are_checked_and_let_go(run_alike, steps_of_a_fold):
    store, found, losses = run_alike(FOLDS.format(steps_of_a_fold=steps_of_a_fold))
    assert losses[-1] == 1
    (event,) = store.events(found.id, kind="later_training")
    assert (event.site, event.step) == ("model", steps_of_a_fold - 1)
    assert checks_of(store, found, "model")["input_is_used"] == "held"


TEMPERATURE = """
model = fit(net(3, 6, 2), 6, lambda model, x: model(x).square().mean())
temperature = nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([temperature], 0.1)
for _ in range(4):
    optimizer.zero_grad()
    functional.cross_entropy(model(torch.randn(8, 3)).detach() / temperature, torch.ones(8).long()).backward()
    optimizer.step()
trained = [model]
"""


def test_a_single_tensor_that_is_tuned_afterwards_is_no_later_network(run_alike):
    store, found, _ = run_alike(FUNCTIONS + TEMPERATURE)
    assert not store.events(found.id, kind="later_training")


GREEDY = """
class Block(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.body, self.head = net(inputs, 5), nn.Linear(5, 2)
    def forward(self, x):
        return self.body(x)
blocks = nn.ModuleList([Block(3), Block(5), Block(5)])
for at, block in enumerate(blocks):
    optimizer = torch.optim.Adam(block.parameters(), 1e-2)
    for _ in range(6):
        x = torch.randn(8, 3)
        with torch.no_grad():
            for done in blocks[:at]:
                x = done(x)
        loss = functional.mse_loss(block.head(block(x)), torch.randn(8, 2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
trained = [blocks]
"""


def test_of_a_list_of_modules_those_are_named_that_are_trained_later(run_alike):
    store, found, _ = run_alike(GREEDY)
    told = {event.site: event.data["networks"] for event in store.events(found.id, kind="later_training")}
    assert told == {f"blocks.{at}": f"blocks.{at} (Block)" for at in (1, 2)}
    assert checks_of(store, found, "blocks.2")["input_is_used"] == "held"
