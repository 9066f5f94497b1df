"""A default device or dtype of the program is for its own tensors: those that the monitor makes say where they lie."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import mindscope  # noqa: E402  it is there anyway

PACKAGE = Path(str(mindscope.__file__)).parent
#: Functions that make a tensor from nothing, and the generator that only draws for one kind of device.
MAKERS = {
    "tensor", "as_tensor", "zeros", "ones", "empty", "full", "arange", "linspace", "logspace", "eye", "rand", "randn",
    "randint", "randperm", "normal", "empty_strided", "scalar_tensor", "tril_indices", "triu_indices", "hann_window",
    "Generator",
}  # fmt: skip
#: Tensors lie on no device that has memory if the program does not say where: what the monitor makes without a device
#: cannot be read.
SCRIPT = """
torch.set_default_device("meta")
draws = torch.Generator("cpu").manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16, device="cpu"), nn.ReLU(), nn.Linear(16, 3, device="cpu"))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
inputs = torch.randn(300, 6, generator=draws, device="cpu")
labels = inputs[:, :3].argmax(1)
try:
    for _ in range(steps):
        rows = torch.randperm(300, generator=draws, device="cpu")[:32]
        loss = functional.cross_entropy(model(inputs[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
finally:
    torch.set_default_device(None)
trained = [model]
"""


def made_without_a_device() -> Iterator[str]:
    """Yield the calls that leave the device of a tensor to the program's default, by file and line."""
    for path in sorted([*PACKAGE.glob("probe/**/*.py"), *PACKAGE.glob("armour/**/*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name("torch"), attr=name), keywords=named, args=given):
                    says = {one.arg for one in named} & {"device", None} or (name == "Generator" and given)
                    if name in MAKERS and not says:
                        yield f"{path.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)}"


def test_every_tensor_that_is_made_says_on_which_device() -> None:
    assert list(made_without_a_device()) == []


@pytest.mark.parametrize("is_sent", [False, True], ids=["read at once", "sent as from a device"])
def test_a_default_device_changes_nothing_of_what_is_seen(run_alike, forced, is_sent) -> None:
    if is_sent:
        forced()
    checks = []
    for text in (SCRIPT, SCRIPT.replace('torch.set_default_device("meta")', "")):
        store, run, _ = run_alike(text, steps=60)
        assert not store.events(run.id, kind="monitor_fault")
        assert run.last_step == 59
        events = store.events(run.id, kind="check")
        checks.append({(str(one.data["check"]), str(one.data["outcome"])) for one in events})
    assert checks[0] == checks[1]
    assert len(checks[0]) > 10


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_a_default_dtype_changes_nothing_of_what_is_seen(run_alike, dtype) -> None:
    text = SCRIPT.replace('torch.set_default_device("meta")', f"torch.set_default_dtype(torch.{dtype})")
    text = text.replace("torch.set_default_device(None)", "torch.set_default_dtype(torch.float32)")
    store, run, losses = run_alike(text, steps=60)
    assert not store.events(run.id, kind="monitor_fault")
    assert run.last_step == 59
    assert losses[-1] < losses[0]
