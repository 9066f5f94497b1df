"""Tensors that no kernel can read: each is named once in the run, and none of them touches the training."""

import numpy as np
import pytest
from mindscope.probe import watch
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from mindscope.probe.adapters.torch.torch_tensors import array_of, place_of, plain_place  # noqa: E402
from mindscope.probe.tensor_access import Unsupported  # noqa: E402


class Wrapped(torch.Tensor):
    """A tensor whose values lie in another one, as those of quantized weights do."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        raise NotImplementedError(function)


def no_memory():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(3, 4)
    return {"fake": fake, "wrapped": Wrapped(torch.ones(3, 4)), "meta": torch.empty(3, device="meta")}


@pytest.mark.parametrize("name", ["fake", "wrapped", "meta"])
def test_what_has_no_memory_of_its_own_is_refused_and_not_read(name):
    with pytest.raises(Unsupported, match="cannot be read"):
        place_of(no_memory()[name])
    with pytest.raises(Unsupported, match="cannot be read"):
        array_of(no_memory()[name])


def test_a_subclass_with_memory_is_read_where_it_lies():
    class Named(torch.Tensor):
        pass

    tensor = torch.arange(6.0).as_subclass(Named)
    (address, size, _), owner = place_of(tensor)
    assert (address, size, owner.tolist()) == (tensor.data_ptr(), 6, list(range(6)))


class Negated(torch.autograd.Function):
    """Gives a tensor whose memory holds the negatives of its values, as of `z.conj().imag`, and such a gradient."""

    @staticmethod
    def forward(ctx, x):
        return torch._neg_view(-x)

    @staticmethod
    def backward(ctx, gradient):
        return torch._neg_view(-gradient)


class Negating(torch.nn.Module):
    def forward(self, x):
        return Negated.apply(x)


def test_a_tensor_whose_memory_holds_the_negatives_of_its_values_is_read_with_their_sign():
    tensor = torch._neg_view(torch.arange(1.0, 10.0))
    (_, _, _), owner = place_of(tensor)
    assert not owner.is_neg()
    assert owner.tolist() == array_of(tensor).tolist() == tensor.tolist()
    assert plain_place(tensor) is None


@pytest.mark.parametrize("is_rich", [False, True])
def test_outputs_and_gradients_of_that_kind_are_recorded_as_they_are(is_rich):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), Negating(), torch.nn.Identity())
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    outputs, gradients = [], []

    def keep(_module, _inputs, output):
        outputs.append(output.detach().double())
        output.register_hook(gradients.append)

    net[0].register_forward_hook(keep)
    config = {"histograms": {"every": 1, "subjects": ["activation", "activation_grad"]}} if is_rich else {}
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store, config=config) as monitor:
            for _ in range(4):
                optimizer.zero_grad()
                net(torch.rand(3, 4) + 1.0).square().sum().backward()
                optimizer.step()
        run = monitor.run.id
        for site, subject, values in (("1", "activation", outputs), ("0", "activation_grad", gradients)):
            for name in ("mean", "min", "max"):
                told = store.series(run, site, f"{subject}/{name}").values.tolist()
                assert told == pytest.approx([getattr(one, name)().item() for one in values], rel=1e-5)
    assert gradients[0].is_neg()


class Waves(torch.nn.Module):
    """A complex parameter and a complex output between two real ones."""

    def __init__(self):
        super().__init__()
        self.fourier, self.phase = Fourier(), torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.head(torch.fft.irfft(self.fourier(x) * self.phase))


class Fourier(torch.nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x)


def trained(store, make):
    torch.manual_seed(0)
    net = Waves()
    optimizer = make(net.parameters())
    monitor = watch(net, optimizer, store=store, run="waves") if store else None
    losses, before, norms = [], net.phase.detach().clone(), {}
    for step in range(3):
        loss = net(torch.randn(5, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
        norms[step] = [float(value.detach().norm()) for value in (net.phase.grad, net.phase, net.phase - before)]
        before = net.phase.detach().clone()
    if monitor:
        monitor.close()
    return losses, monitor, np.array(list(norms.values()))


@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9),
        lambda parameters: torch.optim.Adam(parameters, 0.1),
    ],
)
def test_complex_tensors_are_recorded_by_their_real_and_imaginary_parts(make):
    with open_store("memory:") as store:
        losses, monitor, norms = trained(store, make)
        run = monitor.run.id
        assert not store.events(run, kind="monitor_fault")
        for column, metric in enumerate(("gradient/l2_norm", "weight/l2_norm", "update/l2_norm")):
            recorded = store.series(run, "phase", metric).values
            assert recorded[-3:] == pytest.approx(norms[:, column], rel=1e-5)
        assert store.series(run, "fourier", "activation/l2_norm").steps.tolist() == [0, 1, 2]
    assert losses == trained(None, make)[0]
