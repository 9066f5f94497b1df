"""The first bad operation is named with its line, in forward, loss and backward; what is meant is not suspected."""

import inspect

import numpy as np
import pytest
from mindscope import diagnose, open_store, watch
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.framework.optim import SGD
from mindscope.framework.primitive import PRIMITIVES


class Net(nn.Cell):
    """Two layers, and a function between them."""

    def __init__(self, between):
        super().__init__()
        self.first = nn.Dense(4, 4, key=Key(1))
        self.between = between
        self.last = nn.Dense(4, 1, key=Key(2))

    def construct(self, x):
        return self.last(self.between(self.first(x)))


def line_of(function):
    return inspect.getsourcelines(function)[1]


def train(store, between, loss_of=lambda y: (y * y).mean(), trace=True, steps=3, poison=None):
    net = Net(between).set_train()
    optimizer = SGD(net.trainable_params(), learning_rate=0.1)
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    losses = []
    with watch(net, optimizer, store=store, config={"nan_trace": trace}) as monitor:
        for step in range(steps):
            batch = x.copy()
            if step == poison:
                batch[3, 2] = np.nan
            optimizer.zero_grad()
            loss = loss_of(net(Tensor(batch)))
            loss.backward()
            optimizer.step()
            losses.append(loss.numpy().tobytes())
    return monitor.run.id, losses


def told(store, run):
    return [event for event in store.events(run, kind="first_bad_operation")]


def negative_log(x):
    return ops.log(x)


def test_the_operation_of_the_forward_pass_and_its_line():
    with open_store("memory:") as store:
        run, _ = train(store, negative_log, steps=1)
        (event,) = told(store, run)
        assert (event.step, event.data["operation"], event.data["phase"]) == (0, "log", "forward")
        assert event.data["file"] == __file__
        assert event.data["line"] == line_of(negative_log) + 1
        assert event.data["code"] == "return ops.log(x)"
        assert event.data["inputs"][0]["min"] < 0.0
        assert event.data["output"]["nans"] > 0
        words = diagnose(store, run).root_causes[0].explanation
        assert "the first bad operation is log at" in words


class Log(nn.Cell):
    """A cell whose operation is bad."""

    def construct(self, x):
        return ops.log(x)


@pytest.mark.parametrize("at", [0, 2])
def test_the_operation_of_a_cell_that_was_exchanged_and_its_site(at):
    net = Net(nn.ReLU()).set_train()
    optimizer = SGD(net.trainable_params(), learning_rate=0.1)
    old = net.between
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store, config={"nan_trace": True}) as monitor:
            for step in range(4):
                if step == at:
                    net.between = nn.SequentialCell(nn.Identity(), Log()).set_train()
                loss = net(Tensor(np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32))).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        event = told(store, monitor.run.id)[0]
        assert (event.step, event.site, event.data["operation"]) == (at, "between.1", "log")
        assert (event.data["file"], event.data["line"]) == (__file__, line_of(Log.construct) + 1)
    assert all(not (one._cell_hooks and one._cell_hooks.forward) for one in (old, net, net.between))


def bad_root(x):
    return ops.sqrt(ops.relu(x))


def test_the_operation_of_the_backward_pass():
    with open_store("memory:") as store:
        run, _ = train(store, bad_root, steps=1)
        event = told(store, run)[0]
        assert event.data["phase"] == "backward"
        assert event.data["output"]["nans"] + event.data["output"]["pos_infs"] > 0


def test_what_shows_in_later_steps_is_explained_by_the_operation_of_the_first():
    with open_store("memory:") as store:
        run, _ = train(store, ops.identity, loss_of=lambda y: ops.log(ops.relu(y * 0.0) * y).mean(), steps=3)
        found = diagnose(store, run).findings
        (event,) = told(store, run)
    later = [one for one in found if one.first_step > event.step]
    assert [(one.rule, one.first_step) for one in later] == [("non-finite-activation", 1)]
    assert f"the trace of step 0 shows: the first bad operation is log at {__file__}" in later[0].explanation
    assert later[0].advice.startswith(f"fix the operation traced at step 0 at {__file__}")


def test_a_mask_of_minus_infinity_is_meant_but_the_log_of_zero_is_not():
    def masked(x):
        mask = Tensor(np.array([True, False, True, True]))
        return ops.softmax(ops.where(mask, x, -np.inf))

    with open_store("memory:") as store:
        run, _ = train(store, masked)
        assert told(store, run) == []

    with open_store("memory:") as store:
        run, _ = train(store, ops.identity, loss_of=lambda y: -ops.log(ops.relu(y * 0.0)).mean(), steps=1)
        event = told(store, run)[0]
        assert (event.data["operation"], event.data["phase"]) == ("log", "loss")


def test_what_was_bad_before_the_model_is_not_blamed_on_an_operation():
    with open_store("memory:") as store:
        run, _ = train(store, ops.relu, poison=1)
        event = told(store, run)[0]
        assert (event.step, event.data["source"]) == (1, "its inputs were not finite already")


@pytest.fixture(params=["engine", "torch"])
def training(request):
    """A net that is watched with a given configuration: a step on a batch, and its weights put back."""
    return Engine if request.param == "engine" else Torch


class Engine:
    """The training of `Net`."""

    def __init__(self):
        self.net = Net(ops.relu).set_train()
        self.optimizer = SGD(self.net.trainable_params(), learning_rate=0.01)
        self.good = {site: one.numpy().copy() for site, one in self.net.parameters_and_names()}

    def step(self, batch):
        self.optimizer.zero_grad()
        (self.net(Tensor(batch)) ** 2).mean().backward()
        self.optimizer.step()

    def put_back(self):
        for site, one in self.net.parameters_and_names():
            one.set_data(Tensor(self.good[site]))


class Torch:
    """The training of `TorchNet`."""

    def __init__(self):
        pytest.importorskip("torch", reason="PyTorch is not installed")
        self.net = TorchNet(torch.relu)
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.01)
        self.good = {name: one.clone() for name, one in self.net.state_dict().items()}

    def step(self, batch):
        self.optimizer.zero_grad()
        (self.net(torch.from_numpy(batch)) ** 2).mean().backward()
        self.optimizer.step()

    def put_back(self):
        self.net.load_state_dict(self.good)


def steps_of_bad_operations(training, config, steps, *, poison, put_back=()):
    """The steps at which an event came, of a training whose batch holds NaN at those of `poison`."""
    trained = training()
    with open_store("memory:") as store:
        with watch(
            trained.net, trained.optimizer, store=store, config={"nan_trace": True, "record": "all", **config}
        ) as monitor:
            for step in range(steps):
                if step in put_back:
                    trained.put_back()
                batch = np.random.default_rng(step).standard_normal((8, 4)).astype(np.float32)
                if step in poison:
                    batch[3, 2] = np.nan
                trained.step(batch)
        return [event.step for event in told(store, monitor.run.id)]


def test_once_the_weights_are_bad_nothing_more_is_said_until_they_are_finite_again(training):
    found = steps_of_bad_operations(training, {}, 12, poison={2, 4, 9}, put_back={7})
    assert found == [2, 9]


def test_each_bad_batch_is_told_while_the_weights_stay_finite(training):
    found = steps_of_bad_operations(training, {"on_finding": "skip_step"}, 8, poison={2, 3, 6})
    assert found == [2, 3, 6]


def test_weights_that_go_bad_between_two_steps_are_told_at_the_first_pass_that_shows_it():
    trained = Engine()
    with open_store("memory:") as store:
        with watch(trained.net, trained.optimizer, store=store, config={"nan_trace": True}) as monitor:
            for step in range(5):
                if step == 2:
                    first = next(trained.net.get_parameters())
                    first.set_data(Tensor(np.full(first.shape, np.inf, np.float32)))
                trained.step(np.ones((8, 4), np.float32))
        (event,) = told(store, monitor.run.id)
    assert (event.step, event.data["source"]) == (2, "its inputs were not finite already")


def test_tracing_changes_no_bit_and_leaves_no_trace():
    before = {name: primitive.evaluate for name, primitive in PRIMITIVES.items()}
    with open_store("memory:") as store:
        _, traced = train(store, ops.relu, steps=6)
        _, plain = train(store, ops.relu, trace=False, steps=6)
    assert traced == plain
    assert {name: primitive.evaluate for name, primitive in PRIMITIVES.items()} == before


torch = pytest.importorskip("torch", reason="PyTorch is not installed")


class TorchNet(torch.nn.Module):
    """Two layers, and a function between them."""

    def __init__(self, between):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
        self.between = between

    def forward(self, x):
        return self.last(self.between(self.first(x)))


def train_torch(store, between, loss_of=lambda y: (y * y).mean(), trace=True, steps=1):
    net = TorchNet(between)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32))
    losses = []
    with watch(net, optimizer, store=store, config={"nan_trace": trace}) as monitor:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_of(net(x))
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().numpy().tobytes())
    return monitor.run.id, losses


def torch_log(x):
    return torch.log(x)


def test_torch_the_operation_of_the_forward_pass_and_its_line():
    with open_store("memory:") as store:
        run, _ = train_torch(store, torch_log)
        event = told(store, run)[0]
        assert (event.data["operation"], event.data["phase"], event.site) == ("aten.log.default", "forward", "")
        assert (event.data["file"], event.data["line"]) == (__file__, line_of(torch_log) + 1)


class TorchLog(torch.nn.Module):
    """What the logarithm of both signs is, one module deep."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Identity()

    def forward(self, x):
        return torch.log(self.inner(x))


def exchange(net):
    net.between = TorchLog()


def join(net):
    net.last = torch.nn.Sequential(torch.nn.Linear(4, 1), TorchLog())


@pytest.mark.parametrize(("change", "site"), [(exchange, "between"), (join, "last.1")])
@pytest.mark.parametrize("at", ["before the first step", "at the third", "at the third, good until the fifth"])
def test_torch_the_operation_of_a_module_that_was_exchanged_and_its_site(change, site, at):
    torch.manual_seed(0)
    net = TorchNet(torch.nn.Identity())
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    old, step_of_change = net.between, 0 if at.startswith("before") else 2
    bad = 4 if at.endswith("fifth") else step_of_change
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store, config={"nan_trace": True}) as monitor:
            for step in range(6):
                if step == step_of_change:
                    change(net)
                with torch.no_grad():
                    for layer in (one for one in net.modules() if isinstance(one, torch.nn.Linear)):
                        layer.weight.fill_(-0.5 if layer is net.first and step >= bad else 0.5)
                        layer.bias.zero_()
                optimizer.zero_grad()
                net(torch.ones(8, 4)).mean().backward()
                optimizer.step()
        event = told(store, monitor.run.id)[0]
        assert (event.step, event.site) == (bad, site)
        assert (event.data["operation"], event.data["phase"]) == ("aten.log.default", "forward")
        assert (event.data["file"], event.data["line"]) == (__file__, line_of(TorchLog.forward) + 1)
    for module in (old, *net.modules()):
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_torch_the_operation_of_the_backward_pass():
    with open_store("memory:") as store:
        run, _ = train_torch(store, lambda x: torch.sqrt(torch.relu(x)))
        event = told(store, run)[0]
        assert event.data["phase"] == "backward"
        assert event.data["operation"].startswith("aten.")


def log_of_zero(y):
    return -torch.log(torch.relu(y * 0.0)).mean()


def test_torch_the_operation_of_the_loss_and_its_line():
    with open_store("memory:") as store:
        run, _ = train_torch(store, torch.relu, loss_of=log_of_zero)
        event = told(store, run)[0]
        assert (event.data["phase"], event.data["operation"]) == ("loss", "aten.log.default")
        assert (event.data["file"], event.data["line"]) == (__file__, line_of(log_of_zero) + 1)
        assert event.data["inputs"][0]["max"] == 0.0


def test_torch_inside_of_a_mode_of_the_users_a_bad_loss_names_the_operations_between():
    from torch.utils._python_dispatch import _get_current_dispatch_mode, _get_current_dispatch_mode_stack
    from torch.utils.flop_counter import FlopCounterMode

    class Counted(TorchNet):
        def __call__(self, x):
            with FlopCounterMode(display=False):
                return super().__call__(x)

    net = Counted(torch.relu)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store, config={"nan_trace": True}) as monitor:
            for _ in range(2):
                y = net(torch.ones(8, 4))
                assert _get_current_dispatch_mode() is None
                log_of_zero(y).backward()
                with FlopCounterMode(display=False) as counter:
                    log_of_zero(net(torch.ones(8, 4))).backward()
                    assert _get_current_dispatch_mode_stack()[-1] is counter.mode
                optimizer.step()
        assert _get_current_dispatch_mode() is None
        event = told(store, monitor.run.id)[0]
    assert (event.data["phase"], event.data["source"]) == ("loss", "one of these")
    assert "Log" in event.data["operation"]


def test_torch_tracing_changes_no_bit():
    with open_store("memory:") as store:
        _, traced = train_torch(store, torch.relu, steps=5)
        _, plain = train_torch(store, torch.relu, trace=False, steps=5)
    assert traced == plain


def test_torch_a_forward_that_raises_leaves_no_mode_behind():
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    def fail(_x):
        raise ValueError("mine")

    with open_store("memory:") as store, pytest.raises(ValueError, match="mine"):
        train_torch(store, fail)
    assert _get_current_dispatch_mode() is None


class Rooted(torch.nn.Module):
    """A root whose slope is infinite, behind a mask that is no operation of its own."""

    def forward(self, x):
        return x + torch.sqrt((x * 0.0).abs())


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_backward_operation_of_torch_names_its_node_and_the_line_and_site_of_the_forward_pass(sign):
    losses = []
    for is_on in (True, False):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), Rooted(), torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with open_store("memory:") as store:
            with watch(model, optimizer, store=store, config={"nan_trace": is_on}) as monitor:
                loss = sign * model(torch.ones(8, 4)).mean()
                loss.backward()
                optimizer.step()
            losses.append((loss.item(), str(model[0].weight.grad)))
            if is_on:
                (event,) = told(store, monitor.run.id)
                words = diagnose(store, monitor.run.id).findings[0].explanation
    assert losses[0] == losses[1]
    assert (event.site, event.data["node"], event.data["phase"]) == ("1", "SqrtBackward0", "backward")
    assert (event.data["file"], event.data["line"]) == (__file__, line_of(Rooted.forward) + 1)
    assert "in the backward pass of SqrtBackward0, at" in words
