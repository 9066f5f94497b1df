"""A watched module pickles, copies, scripts, exports and compiles as its unwatched twin does."""

import copy
import io
import pickle
import zipfile
from collections import OrderedDict

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe import watch  # noqa: E402  torch may be missing
from mindscope.storage import open_store  # noqa: E402

PARTS = [torch.nn.Linear, torch.nn.Sequential, torch.nn.BatchNorm1d, torch.nn.ReLU, set]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 5)
        self.rest = torch.nn.Sequential(torch.nn.BatchNorm1d(5), torch.nn.ReLU(), torch.nn.Linear(5, 2))

    def forward(self, x):
        return self.rest(self.first(x))


def hook_of_others(module, inputs, output):
    return output + 1


def train(model, optimizer):
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        loss = model(torch.randn(6, 4, generator=generator)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def payload(thing):
    """The pickle inside of a checkpoint; storages have numbers there, no addresses."""
    file = io.BytesIO()
    torch.save(thing, file)
    return zipfile.ZipFile(file).read("archive/data.pkl")


@pytest.fixture
def twins():
    """(unwatched model and optimizer, watched ones, monitor), after three steps."""
    pairs = []
    for _ in range(2):
        torch.manual_seed(0)
        model = Net()
        pairs.append((model, torch.optim.Adam(model.parameters(), 1e-2)))
    with watch(*pairs[1], store=open_store("memory:")) as monitor:
        for pair in pairs:
            train(*pair)
        yield (*pairs, monitor)


def test_what_is_saved_has_the_bytes_of_the_twin_s(twins):
    (bare, bare_optimizer), (watched, optimizer), monitor = twins
    assert payload(watched) == payload(bare)
    assert payload(watched.state_dict()) == payload(bare.state_dict())
    assert payload(optimizer) == payload(bare_optimizer)
    monitor.close()
    assert payload(watched) == payload(bare)


def test_what_is_saved_loads_with_weights_only(twins):
    _, (watched, _), _ = twins
    file = io.BytesIO()
    torch.save(watched, file)
    file.seek(0)
    with torch.serialization.safe_globals([Net, *PARTS]):
        loaded = torch.load(file, weights_only=True)
    torch.testing.assert_close(loaded.eval()(torch.ones(2, 4)), watched.eval()(torch.ones(2, 4)))


def test_a_hook_of_others_is_saved_alone(twins):
    (bare, _), (watched, _), _ = twins
    for model in (bare, watched):
        handle = model.first.register_forward_hook(hook_of_others, always_call=True)
        loaded = pickle.loads(pickle.dumps(model))
        assert list(loaded.first._forward_hooks.values()) == [hook_of_others]
        assert list(loaded.first._forward_hooks_always_called.values()) == [True]
        handle.remove()
        assert hook_of_others not in model.first._forward_hooks.values()
    assert payload(watched) == payload(bare)


@pytest.mark.parametrize(
    "make", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["deep", "pickle"]
)
def test_a_copy_has_plain_tables_without_hooks(twins, make):
    _, (watched, _), _ = twins
    for module in make(watched).modules():
        for name in ("_forward_hooks", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"):
            assert type(vars(module)[name]) is OrderedDict
            assert not vars(module)[name]
    assert watched._forward_hooks


def test_a_module_that_had_hooks_of_others_keeps_their_handles():
    model = Net()
    handle = model.first.register_forward_hook(hook_of_others)
    with watch(model, torch.optim.SGD(model.parameters(), 0.1), store=open_store("memory:")):
        handle.remove()
        assert hook_of_others not in model.first._forward_hooks.values()


@pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning")
def test_a_watched_module_is_scripted_exported_and_compiled_as_its_twin(twins):
    (bare, _), (watched, _), _ = twins
    x = torch.ones(2, 4)
    bare.eval(), watched.eval()
    assert torch.jit.script(watched).code == torch.jit.script(bare).code
    assert torch.jit.trace(watched, x).code == torch.jit.trace(bare, x).code
    graphs = [str(torch.export.export(model, (x,), strict=True).graph) for model in (bare, watched)]
    assert graphs[0] == graphs[1]
    counts = []
    for model in (bare, watched):
        torch._dynamo.reset()
        counter = torch._dynamo.testing.CompileCounter()
        compiled = torch.compile(model, backend=counter)
        torch.testing.assert_close(compiled(x), model(x))
        compiled(x)
        counts.append((counter.frame_count, counter.op_count))
    assert counts[0] == counts[1]
