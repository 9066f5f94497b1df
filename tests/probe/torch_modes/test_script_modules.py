"""What TorchScript has made cannot be watched; what it was made of can, and a model with a traced part."""

import warnings

import mindscope as ms
import pytest
from mindscope.probe.errors import NotWatchable

torch = pytest.importorskip("torch")


def made_by(how: str, module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions deprecate both
        return torch.jit.trace(module, torch.ones(2, 3)) if how == "trace" else torch.jit.script(module)


@pytest.mark.parametrize("how", ["trace", "script"])
def test_a_module_of_torch_jit_is_refused_with_what_to_watch(tmp_path, how):
    with pytest.raises(NotWatchable, match=r"of torch\.jit: nothing of its calls is seen; watch the module before"):
        ms.watch(made_by(how, torch.nn.Linear(3, 1)), store=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_scripted_part_is_refused_by_its_site(tmp_path):
    model = torch.nn.Sequential(made_by("script", torch.nn.Linear(3, 3)), torch.nn.Linear(3, 1))
    with pytest.raises(NotWatchable, match="0 of the model is made by torch"):
        ms.watch(model, store=tmp_path)


def test_a_traced_part_is_seen_at_its_boundary(tmp_path):
    model = torch.nn.Sequential(made_by("trace", torch.nn.Linear(3, 3)), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with ms.watch(model, optimizer, store=tmp_path, run="traced"):
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    with ms.open_store(tmp_path) as store:
        assert len(store.series(store.find_run("traced").id, "0", "activation/mean").values) == 1
