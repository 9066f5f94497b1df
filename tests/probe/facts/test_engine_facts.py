"""Facts of engine trainings: losses by the tape, clipping, modes, and the causality of cells."""

import numpy as np
import pytest
from mindscope.framework import Tensor, nn, ops
from mindscope.framework.optim import Adam, clip_by_global_norm, gradient_clipping
from mindscope.insight import diagnose
from mindscope.probe import check_causality, watch
from mindscope.storage import open_store


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.second = nn.Dense(4, 8), nn.Dropout(p=0.1), nn.Dense(8, 3)

    def construct(self, x):
        return self.second(self.drop(ops.relu(self.first(x))))


def seeded():
    from mindscope.framework.random import set_seed

    set_seed(0)
    net = Network()
    net.set_train()
    return net


CROSS_ENTROPY = nn.CrossEntropyLoss()


def train(net, loss_of=CROSS_ENTROPY, change=lambda x: x, steps=3, *, limit=None):
    optimizer = Adam(net.trainable_params(), 1e-2)
    return optimizer, lambda: _losses(net, optimizer, loss_of, change, steps, limit)


def _losses(net, optimizer, loss_of, change, steps, limit):
    rng, losses = np.random.default_rng(0), []
    for _ in range(steps):
        x, labels = Tensor(rng.normal(size=(16, 4)).astype("f")), rng.integers(0, 3, 16)
        hot = np.eye(3, dtype="f")[labels]
        target = Tensor(hot if "BCE" in type(loss_of).__name__ else labels)
        loss = loss_of(change(net(x)), target)
        loss.backward()
        if limit is not None:
            clip_by_global_norm(net.trainable_params(), limit)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.numpy().tobytes())
    return losses


def recorded(**options):
    net, store = seeded(), open_store("memory:")
    optimizer, run = train(net, **options)
    with watch(net, optimizer, store=store) as monitor:
        losses = run()
    events = [event for record in store.replay(monitor.run.id) for event in record.events]
    return store, monitor.run.id, events, losses


def of_kind(events, kind):
    return [dict(event.data) for event in events if event.kind == kind]


@pytest.mark.parametrize(
    ("loss", "change", "name", "domain", "is_wrong"),
    [
        (nn.CrossEntropyLoss(), lambda x: x, "cross_entropy", "logits", False),
        (nn.CrossEntropyLoss(), ops.softmax, "cross_entropy", "probabilities", True),
        (nn.NLLLoss(), lambda x: x, "nll_loss", "logits", True),
        (nn.NLLLoss(), ops.log_softmax, "cross_entropy", "logits", False),
        (nn.BCEWithLogitsLoss(), lambda x: x, "binary_cross_entropy_with_logits", "logits", False),
        (nn.BCEWithLogitsLoss(), ops.sigmoid, "binary_cross_entropy_with_logits", "unit_interval", True),
        (nn.BCELoss(), ops.sigmoid, "binary_cross_entropy", "unit_interval", False),
    ],
)
def test_the_tape_tells_the_loss_and_what_it_was_given(loss, change, name, domain, is_wrong):
    store, run, events, _ = recorded(loss_of=loss, change=change, steps=5)
    assert [(one["loss"], one["domain"]) for one in of_kind(events, "loss_input")] == [(name, domain)]
    causes = {finding.cause for finding in diagnose(store, run).findings}
    assert ("loss_input_domain" in causes) == is_wrong


def test_losses_are_bit_identical_and_the_clip_function_is_put_back():
    before = gradient_clipping.global_norm
    expected = train(seeded(), limit=0.01)[1]()
    store, run, events, losses = recorded(limit=0.01)
    assert losses == expected
    assert gradient_clipping.global_norm is before
    assert of_kind(events, "clipping") == [{"by": "norm", "limit": 0.01}]
    norms = store.series(run, "", "scalar/clip/norm").values
    np.testing.assert_array_equal(store.series(run, "", "scalar/clip/coefficient").values, 0.01 / norms)
    np.testing.assert_allclose(store.series(run, "", "scalar/gradient_norm").values, 0.01, rtol=1e-5)


def test_two_dense_cells_in_a_row_are_found_and_a_function_between_them_is_not():
    class Linear(Network):
        def construct(self, x):
            return self.second(self.drop(self.first(x)))

    for kind, expected in ((Linear, True), (Network, False)):
        net, store = kind(), open_store("memory:")
        net.set_train()
        optimizer, run = train(net)
        with watch(net, optimizer, store=store) as monitor:
            run()
        causes = {finding.cause for finding in diagnose(store, monitor.run.id).findings}
        assert ("missing_nonlinearity" in causes) == expected


class Ahead(nn.Cell):
    def __init__(self, *, is_causal):
        super().__init__()
        self.embed, self.is_causal = nn.Embedding(11, 4), is_causal

    def construct(self, tokens):
        x = self.embed(tokens)
        return ops.cumsum(x, 1) if self.is_causal else x + x.mean(1, keepdims=True)


@pytest.mark.parametrize("is_causal", [True, False])
def test_the_causality_of_a_cell_is_found(is_causal):
    tokens = Tensor(np.random.default_rng(0).integers(0, 11, (2, 6)))
    net = Ahead(is_causal=is_causal)
    net.set_train()
    assert check_causality(net, tokens).is_causal is is_causal
    assert net.training
