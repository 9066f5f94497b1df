"""What a traceback tells: the module that ran, its input, what it expects, and the user's line."""

import pytest
from mindscope.probe.failure_facts import failure_facts
from mindscope.probe.memory_facts import is_out_of_memory, memory_held

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 4)
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        self.head = torch.nn.Linear(8, 3)

    def forward(self, ids):
        hidden = self.body(self.embedding(ids))
        return self.head(
            hidden.mean(1),
        )


class _Odd:
    """An argument whose attributes must not be asked for."""

    @property
    def shape(self):
        raise AssertionError("asked")

    dtype = shape


def facts_of(run, model):
    with pytest.raises(Exception) as raised:  # noqa: PT011  any exception ends a script
        run()
    return failure_facts(raised.value, dict(model.named_modules()))


def test_the_innermost_module_its_input_and_the_whole_statement_are_named():
    model = Net()
    model.head = torch.nn.Linear(6, 3)
    site, facts = facts_of(lambda: model(torch.zeros(2, 5, dtype=torch.long)), model)
    assert (site, facts["phase"], facts["module"]) == ("head", "forward", "Linear")
    assert facts["inputs"] == ["(2, 8) float32"]
    assert facts["parameters"] == ["weight (3, 6) float32", "bias (3,) float32"]
    assert facts["expects"] == "a last axis of 6"
    assert facts["file"] == __file__
    assert facts["code"] == "return self.head( hidden.mean(1), )"
    assert "shapes cannot be multiplied" in facts["message"]


def test_the_range_of_indices_is_told():
    model = Net()
    ids = torch.tensor([[3, 12]])
    site, facts = facts_of(lambda: model(ids), model)
    assert (site, facts["expects"], facts["inputs"]) == (
        "embedding",
        "integers from 0 to 9",
        ["(1, 2) int64 from 3 to 12"],
    )
    assert facts["operands"] == ["ids (1, 2) int64 from 3 to 12"]


def test_a_loss_that_is_not_watched_is_named_without_a_site():
    model, loss, target = Net(), torch.nn.CrossEntropyLoss(), torch.tensor([3, 1])
    output = model(torch.zeros(2, 5, dtype=torch.long))
    site, facts = facts_of(lambda: loss(output, target), model)
    assert (site, facts["phase"], facts["module"]) == ("", "loss", "CrossEntropyLoss")
    assert facts["inputs"] == ["(2, 3) float32", "(2,) int64 from 1 to 3"]


def test_an_error_of_the_backward_pass_is_of_no_module():
    model = Net()
    output = model(torch.zeros(2, 5, dtype=torch.long)).sum()
    output.backward()
    site, facts = facts_of(output.backward, model)
    assert (site, facts["phase"]) == ("", "backward")


def test_tensors_of_the_statement_are_told_and_not_what_it_assigns_to():
    model, left, right = Net(), torch.zeros(2, 3), torch.zeros(4, 5)

    def run():
        left_out = "right"
        result = left @ right  # noqa: F841
        return left_out

    _, facts = facts_of(run, model)
    assert facts["operands"] == ["left (2, 3) float32", "right (4, 5) float32"]


def test_objects_of_the_script_are_not_asked_for_anything():
    model, odd = Net(), _Odd()

    def run():
        raise ValueError(len([odd]))

    site, facts = facts_of(run, model)
    assert (site, facts["type"], facts["message"]) == ("", "ValueError", "1")


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [(MemoryError(), True), (RuntimeError("CUDA out of memory. Tried"), True), (RuntimeError("out of bounds"), False)],
)
def test_memory_that_ran_out_is_recognised(error, is_memory):
    assert is_out_of_memory(error) == is_memory


def test_memory_is_counted_by_holder():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.zeros(2, 5, dtype=torch.long)).sum().backward()
    optimizer.step()
    size = sum(parameter.numel() * 4 for parameter in model.parameters())
    held = memory_held(model, [optimizer])
    assert (held["parameters"], held["gradients"]) == (size, size)
    assert held["optimizer"] == 2 * size + 4 * len(list(model.parameters()))
    assert held["process"] > 10**7
    assert "device" not in held or torch.cuda.is_available()
