"""Targets among the columns of an input: one column for each class, or with noise; and inputs that only look alike."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional
EXACT, NEARLY = "targets_are_no_input_column", "targets_are_nearly_no_input_column"


@pytest.mark.parametrize("kind", ["leak", "other class", "codes alone"])
def test_a_column_for_each_class(told, kind):
    torch.manual_seed(0)
    model = nn.Linear(7, 3)

    def loss():
        y = torch.randint(0, 3, (32,))
        shown = torch.randint(0, 3, (32,)) if kind == "other class" else y
        measured = torch.randint(0, 2, (32, 4)).float() if kind == "codes alone" else torch.randn(32, 4)
        return functional.cross_entropy(model(torch.cat((measured, functional.one_hot(shown, 3).float()), 1)), y)

    found = told([model], loss)
    assert found.outcomes[EXACT, "input"] == ("broken" if kind == "leak" else "held")
    assert found.causes.get("data_leak") == ("error" if kind == "leak" else None)


@pytest.mark.parametrize(("noise", "scale", "is_near"), [(0.02, 1.0, True), (0.3, 1.0, False), (0.02, 3.0, False)])
def test_a_column_that_is_nearly_the_target_is_a_question(told, noise, scale, is_near):
    torch.manual_seed(0)
    model = nn.Linear(4, 1)

    def loss():
        x, y = torch.randn(32, 4), torch.randn(32)
        x[:, 3] = scale * (y + noise * torch.randn(32))
        return functional.mse_loss(model(x)[:, 0], y)

    found = told([model], loss)
    assert found.outcomes[EXACT, "input"] == "held"
    assert found.outcomes.get((NEARLY, "input")) == ("broken" if is_near else None)
    assert found.causes.get("data_leak") == ("info" if is_near else None)


def test_a_table_that_is_rebuilt_with_its_classes_is_no_leak(told):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, 3), nn.Linear(3, 7))

    def loss():
        y = torch.randint(0, 3, (32,))
        x = torch.cat((torch.randn(32, 4), functional.one_hot(y, 3).float()), 1)
        rebuilt = model(x)
        return functional.mse_loss(rebuilt[:, :4], x[:, :4]) + functional.cross_entropy(rebuilt[:, 4:], y)

    found = told([model], loss)
    assert found.outcomes[EXACT, "input"] == "held"
    assert "data_leak" not in found.causes


@pytest.mark.parametrize("is_shuffled", [False, True], ids=["in blocks", "shuffled"])
def test_the_halves_that_a_batch_is_put_together_of_are_no_leak(told, is_shuffled):
    torch.manual_seed(0)
    model = nn.Linear(4, 2)

    def loss():
        domain = torch.cat((torch.zeros(16), torch.ones(16)))
        x = torch.cat((torch.randn(32, 3), 0.3 * domain[:, None]), 1)
        order = torch.randperm(32) if is_shuffled else torch.arange(32)
        answer = model(x[order])
        named = functional.mse_loss(answer[:, 0], x[order, 0] + torch.randn(32))
        return named + functional.binary_cross_entropy_with_logits(answer[:, 1], domain[order])

    found = told([model], loss)
    assert found.causes.get("data_leak") == ("error" if is_shuffled else None)
