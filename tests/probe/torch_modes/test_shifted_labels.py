"""Full batches whose labels are those of other rows, and trainings that only look like them."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional
CHECK = "labels_belong_to_their_rows"


class OfTheRowBefore(nn.Module):
    """Answers each row from the row before, as a graph or a sequence of rows may."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.roll(1, 0))


def rows(kind):
    """Return the inputs and the classes of a full batch."""
    x = torch.randn(200, 8)
    y = (x @ torch.randn(8, 3)).argmax(1)
    noise = torch.randn(200)
    if kind == "sorted":
        x, y = x[y.argsort()], y[y.argsort()]
    if kind == "one forecast":  # the label of the row before is in the row, and what comes next is noise
        x, y = torch.stack((noise, *torch.randn(3, 200)), 1), (noise.roll(-1) > 0).long()
    if kind == "forecast":
        x, y = torch.stack([noise.roll(back) for back in range(5)], 1), (noise.roll(-1) > 0).long()
    if kind == "series":
        walk = noise.cumsum(0)
        x, y = torch.stack([walk.roll(back) for back in range(5)], 1) / 10, (walk.roll(-1) > 0).long()
    changes = {"rolled": lambda: y.roll(1), "rolled back": lambda: y.roll(-3), "graph": lambda: y.roll(1)}
    changes |= {"permuted": lambda: y[torch.randperm(200)], "constant": lambda: torch.zeros_like(y)}
    return x, changes.get(kind, lambda: y)()


def train(told, kind):
    torch.manual_seed(0)
    x, y = rows(kind)
    model = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, 3))
    model = OfTheRowBefore(model) if kind == "graph" else model
    return told(model, lambda: functional.cross_entropy(model(x), y), rate=0.3, steps=30)


@pytest.mark.parametrize(("kind", "shift"), [("rolled", 1), ("rolled back", -3)])
def test_labels_that_are_rolled_against_their_inputs(told, kind, shift):
    found = train(told, kind)
    assert found.checks[CHECK]["outcome"] == "broken"
    assert found.checks[CHECK]["numbers"]["shift"] == shift
    assert found.causes["uninformative_labels"] == "error"


def test_labels_of_their_own_rows(told):
    found = train(told, "own")
    assert found.checks[CHECK]["outcome"] == "held"
    assert found.causes == {}


@pytest.mark.parametrize("kind", ["sorted", "series"])
def test_rows_that_resemble_their_neighbours_prove_nothing(told, kind):
    assert CHECK not in train(told, kind).checks


@pytest.mark.parametrize("kind", ["one forecast", "forecast"])
def test_a_row_that_holds_an_earlier_label_is_a_forecast(told, kind):
    assert CHECK not in train(told, kind).checks


@pytest.mark.parametrize("kind", ["constant", "permuted"])
def test_labels_that_no_shift_explains(told, kind):
    assert CHECK not in train(told, kind).checks


def test_a_model_that_answers_from_other_rows(told):
    assert CHECK not in train(told, "graph").checks


@pytest.mark.parametrize("is_rolled", [True, False])
def test_a_distance_that_the_program_writes(told, is_rolled):
    torch.manual_seed(0)
    x, model = torch.randn(128, 6), nn.Linear(6, 2)
    y = x @ torch.randn(6, 2)
    y = y.roll(2, 0) if is_rolled else y
    found = told(model, lambda: ((model(x) - y) ** 2).mean(), rate=0.05)
    assert found.checks[CHECK]["outcome"] == ("broken" if is_rolled else "held")


def test_labels_that_two_losses_mix(told):
    torch.manual_seed(0)
    x, y = rows("own")
    model, mixed = nn.Linear(8, 3), 0.95 * x + 0.05 * x.roll(1, 0)

    def loss():
        scores = model(mixed)
        return 0.95 * functional.cross_entropy(scores, y) + 0.05 * functional.cross_entropy(scores, y.roll(1))

    assert CHECK not in told(model, loss).checks


def test_a_training_that_is_only_slow_is_not_labelled_wrongly(told):
    torch.manual_seed(0)
    x = torch.randn(500, 4)
    y = (x[:, 0] * x[:, 1] > 0).long()
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    found = told(model, lambda: functional.cross_entropy(model(x), y), rate=0.1, steps=120)
    assert found.checks[CHECK]["outcome"] == "held"
    assert "uninformative_labels" not in found.causes
