"""Engine cells are watched as torch modules are."""

from threading import Event, Thread

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, ops, value_and_grad
from mindscope.framework.optim import DynamicLossScaler
from mindscope.probe import NotWatchable, watch
from mindscope.storage import open_store


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.body = nn.SequentialCell(nn.Dense(6, 16, key=Key(0)), nn.ReLU(), nn.Dropout(p=0.3))
        self.head = nn.Dense(16, 3, key=Key(1))

    def construct(self, x):
        return self.head(self.body(x) + 1.0)


def batches(count):
    rng = np.random.default_rng(1)
    return [(Tensor(rng.normal(size=(8, 6)).astype(np.float32)), Tensor(rng.integers(0, 3, 8))) for _ in range(count)]


def by_backward(model, optimizer, steps):
    losses = []
    for x, y in batches(steps):
        loss = ops.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def by_gradient_function(model, optimizer, steps):
    def forward(x, y):
        return ops.cross_entropy(model(x), y)

    step = value_and_grad(forward, None, weights=list(optimizer.parameters))
    losses = []
    for x, y in batches(steps):
        loss, gradients = step(x, y)
        optimizer(gradients)
        losses.append(float(loss))
    return losses


def network():
    from mindscope.framework import set_seed

    set_seed(0)
    return Network().set_train()


@pytest.mark.parametrize("train", [by_backward, by_gradient_function])
def test_losses_and_weights_are_bit_identical_and_numbers_are_the_engines_own(train):
    alone, watched = network(), None
    expected = train(alone, nn.Adam(alone.trainable_params(), 1e-2), 4)
    watched = network()
    optimizer = nn.Adam(watched.trainable_params(), 1e-2)
    before = watched.head.weight.asnumpy()
    store = open_store("memory:")
    with watch(watched, optimizer, store=store) as monitor:
        losses = train(watched, optimizer, 4)
    run = monitor.run.id
    assert losses == expected
    for one, other in zip(alone.get_parameters(), watched.get_parameters(), strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes()
    assert store.series(run, "", "scalar/loss").values.tolist() == losses
    after = watched.head.weight.numpy().astype(np.float64)
    assert store.series(run, "head.weight", "weight/l2_norm").values[-1] == pytest.approx(
        np.linalg.norm(after), rel=1e-6
    )
    moved = store.series(run, "head.weight", "update/l2_norm").values
    assert np.linalg.norm(after - before) <= moved.sum() * (1 + 1e-6)
    slot = optimizer.slots()["exp_avg"][[p.name for p in optimizer.parameters].index("head.weight")]
    found = store.series(run, "head.weight", "optimizer/exp_avg/l2_norm").values[-1]
    assert found == pytest.approx(np.linalg.norm(slot.astype(np.float64)), rel=1e-6)
    for metric in ("activation/std", "activation_grad/std"):
        assert len(store.series(run, "body.0", metric).values) == 4


def test_gradients_of_activations_equal_finite_sums():
    model = nn.SequentialCell(nn.Dense(6, 3, key=Key(2)), nn.Dense(3, 1, key=Key(3))).set_train()
    optimizer = nn.SGD(model.trainable_params(), 0.1)
    store = open_store("memory:")
    weight = model.name_cells()["1"].weight.asnumpy().astype(np.float64)
    with watch(model, optimizer, store=store) as monitor:
        model(Tensor(np.ones((4, 6), np.float32))).sum().backward()
        optimizer.step()
    found = store.series(monitor.run.id, "0", "activation_grad/l2_norm").values[0]
    assert found == pytest.approx(2 * np.linalg.norm(weight), rel=1e-6)


def test_the_structure_tells_order_and_edges():
    model = network()
    optimizer = nn.SGD(model.trainable_params(), 0.1)
    store = open_store("memory:")
    with watch(model, optimizer, store=store) as monitor:
        by_backward(model, optimizer, 1)
    structure = store.structure(monitor.run.id)
    assert [module.site for module in structure.modules] == ["body.0", "body.1", "body.2", "body", "head", ""]
    assert {module.site: module.inputs for module in structure.modules}["head"] == ("body",)
    assert structure.optimizers[0].kind == "SGD"
    assert {parameter.site: parameter.group for parameter in structure.parameters}["head.bias"] == (0, 0)


def test_a_skipped_step_is_recorded_as_skipped():
    model = network()
    optimizer = nn.SGD(model.trainable_params(), 0.1)
    scaler = DynamicLossScaler(2.0**10)
    losses = []
    store = open_store("memory:")
    with watch(model, optimizer, store=store) as monitor:
        for number, (x, y) in enumerate(batches(3)):
            optimizer.zero_grad()
            loss = ops.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            losses.append(float(loss))
            if number == 1:
                model.head.weight.grad.numpy()[0, 0] = np.inf
            scaler.step(optimizer)
    assert [record.skipped for record in store.replay(monitor.run.id)] == [False, True, False]
    (event,) = store.events(monitor.run.id, kind="step_skipped")
    assert (event.step, event.data["loss_scale"]) == (1, 1024.0)
    assert store.series(monitor.run.id, "", "scalar/loss").values.tolist() == losses
    assert store.series(monitor.run.id, "", "scalar/loss_scale").values.tolist() == [1024.0, 1024.0, 512.0]


def test_gradients_left_of_the_last_step_are_noted():
    model = network()
    optimizer = nn.SGD(model.trainable_params(), 0.01)
    store = open_store("memory:")
    with watch(model, optimizer, store=store) as monitor:
        for x, y in batches(3):
            ops.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert [event.step for event in store.events(monitor.run.id, kind="gradient_before_forward")] == [1, 2]


def test_an_optimizer_of_another_framework_is_refused():
    with pytest.raises(NotWatchable, match="must be an engine optimizer, got int"):
        watch(network(), 3, store=open_store("memory:"))


def test_a_training_in_another_thread_is_left_alone():
    is_over = Event()

    def beside():
        other = network()
        optimizer = nn.Adam(other.trainable_params(), 1e-2)
        while not is_over.is_set():
            by_backward(other, optimizer, 4)

    thread = Thread(target=beside)
    thread.start()
    model = network()
    optimizer = nn.Adam(model.trainable_params(), 1e-2)
    with open_store("memory:") as store:
        try:
            with watch(model, optimizer, store=store) as monitor:
                losses = by_backward(model, optimizer, 200)
        finally:
            is_over.set()
            thread.join()
        assert store.series(monitor.run.id, "", "scalar/loss", limit=1000).values.tolist() == losses


@pytest.mark.parametrize("train", [by_backward, by_gradient_function])
def test_what_changes_weights_between_steps_is_no_part_of_their_updates(train):
    net, moved = network(), []
    optimizer = nn.Adam(net.trainable_params(), 1e-2)
    weight = net.head.weight
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store) as monitor:
            for _ in range(4):
                before = weight.asnumpy().astype(np.float64)
                train(net, optimizer, 1)
                moved.append(np.linalg.norm(weight.numpy() - before))
                weight.copy_(weight.numpy().clip(-0.1, 0.1) * 1.1)
        found = store.series(monitor.run.id, "head.weight", "update/l2_norm").values
    np.testing.assert_allclose(found, moved, rtol=1e-5)
