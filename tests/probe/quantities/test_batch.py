"""What the model is called with: checksums that tell batches apart, statistics of both modes, how usual tokens are."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.probe import watch
from mindscope.probe.kernels import measure_checked, statistics_of
from mindscope.probe.kernels.fingerprints import checksum_from, checksum_of
from mindscope.probe.kernels.tokens import BUCKETS, TOKENS, count_tokens
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def pytorch(batches, evaluated=(), config=None, store=None):
    """Losses of a training on these token batches; the model is evaluated on others behind the second step."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Embedding(50, 8), torch.nn.Linear(8, 50))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    monitor = None if store is None else watch(net, optimizer, store=store, config=config)
    losses = []
    for number, batch in enumerate(batches):
        x = torch.from_numpy(batch)
        loss = torch.nn.functional.cross_entropy(net(x).flatten(0, 1), x.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
        for other in evaluated if number == 1 else ():
            net.eval()
            with torch.no_grad():
                net(torch.from_numpy(other))
            net.train()
    if monitor is not None:
        monitor.close()
    return losses


def engine(batches, _evaluated=(), config=None, store=None):
    """The same of an engine training, on batches of reals."""
    net = nn.SequentialCell(nn.Dense(16, 8, key=Key(0)), nn.ReLU(), nn.Dense(8, 4, key=Key(1))).set_train()
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    monitor = None if store is None else watch(net, optimizer, store=store, config=config)
    losses = []
    for batch in batches:
        loss = ops.cross_entropy(net(Tensor(batch.astype(np.float32))), Tensor(np.arange(len(batch)) % 4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss).hex())
    if monitor is not None:
        monitor.close()
    return losses


def some_batches(count, seed=0):
    return list(np.random.default_rng(seed).integers(0, 50, (count, 4, 16)))


def read(store, metric, site=""):
    return store.series(store.find_run("latest").id, site, metric).values.tolist()


@pytest.mark.parametrize("training", [pytorch, engine])
def test_equal_batches_have_equal_checksums_and_the_losses_are_untouched(training):
    batches = some_batches(6)
    batches[4] = batches[1][::-1].copy()  # the same samples in another order
    with open_store("memory:") as store:
        assert training(batches, store=store) == training(batches)
        checksums = read(store, "scalar/batch/checksum")
        assert read(store, "scalar/batch/samples") == [4.0] * 6
    assert checksums[4] == checksums[1]
    assert len(set(checksums)) == 5


def test_statistics_of_training_and_evaluation_stand_apart():
    batches, others = some_batches(3), [batch + 1 for batch in some_batches(2, seed=1)]
    with open_store("memory:") as store:
        pytorch(batches, [np.minimum(other, 49) for other in others], store=store)
        means = read(store, "batch/mean")
        run = store.find_run("latest").id
        evaluated = [store.series(run, "", "batch/eval/mean", call=call) for call in (0, 1)]
    np.testing.assert_allclose(means, [batch.mean() for batch in batches])
    assert [one.steps.tolist() for one in evaluated] == [[2], [2]]  # behind the step, so in the next record
    np.testing.assert_allclose([one.values[0] for one in evaluated], [np.minimum(o, 49).mean() for o in others])


def test_a_batch_of_one_token_stands_out():
    batches = some_batches(12)
    batches[8] = np.zeros_like(batches[8])
    with open_store("memory:") as store:
        pytorch(batches, store=store)
        divergence, top = read(store, "batch/tokens/divergence"), read(store, "batch/tokens/top_share")
        assert read(store, "scalar/batch/tokens") == [64.0] * 12
    assert math.isnan(divergence[0])
    assert np.argmax(divergence[1:]) + 1 == 8 == np.argmax(top)
    assert top[8] == 1.0


def test_batches_that_are_not_wanted_are_not_looked_at():
    with open_store("memory:") as store:
        pytorch(some_batches(2), config={"subjects": {"batch": False}}, store=store)
        assert not [name for name in store.metrics(store.find_run("latest").id) if "batch" in name]


def test_large_inputs_are_sampled_and_their_checksum_is_not():
    batch = np.random.default_rng(0).normal(3.0, 1.0, (12500, 16))
    other = batch.copy()
    other[777, 7] = np.nextafter(np.float32(other[777, 7]), np.float32(9.0))
    with open_store("memory:") as store:
        engine([batch, other], store=store)
        checksums, sizes, means = (
            read(store, f"{name}") for name in ("scalar/batch/checksum", "batch/size", "batch/mean")
        )
    assert checksums[0] != checksums[1]
    assert 5000 < sizes[0] <= 16384
    assert abs(means[0] - 3.0) < 0.05


@given(arrays(np.uint8, st.integers(0, 40)), st.integers(0, 39), st.integers(1, 255))
def test_a_checksum_changes_with_any_byte(array, place, change):
    assert checksum_of(array) == checksum_of(array.copy())
    if array.size:
        other = array.copy()
        other[place % array.size] ^= change
        assert checksum_of(other) != checksum_of(array)
    assert checksum_of(np.append(array, np.uint8(0))) != checksum_of(array)


@pytest.mark.parametrize("size", [0, 1, 2, 4095, 4096, 4097, 8193, 100_001])
def test_one_pass_finds_the_statistics_and_the_checksum_of_two(size):
    array = np.random.default_rng(size).normal(0.3, 2.0, size + 1).astype(np.float32)[1:]  # words of eight lie askew
    array[::7], array[3::1000] = 0.0, np.nan
    row = np.empty(10)
    mixed = measure_checked(array.ctypes.data, size, row.ctypes.data)
    assert checksum_from(mixed, array.ctypes.data, array.nbytes) == checksum_of(array)
    np.testing.assert_array_equal(row, statistics_of(array))


def test_token_numbers_agree_with_counting_by_hand():
    rng, before, out = np.random.default_rng(3), np.zeros(BUCKETS), np.empty(len(TOKENS))
    first, second = rng.integers(0, 30, 200), rng.integers(10, 60, 300)
    count_tokens(first, before, out)
    shares = np.bincount(first, minlength=BUCKETS) / 200
    entropy = -sum(p * math.log(p) for p in shares if p)
    assert out[:2].tolist() == pytest.approx([entropy, shares.max()])
    assert math.isnan(out[2])
    count_tokens(second, before, out)
    now, usual = np.bincount(second, minlength=BUCKETS) / 300, (shares * 200 + 1) / (200 + BUCKETS)
    assert out[2] == pytest.approx(sum(p * math.log(p / q) for p, q in zip(now, usual, strict=True) if p))
    np.testing.assert_allclose(before, 0.99 * shares * 200 + now * 300)


@given(arrays(np.int64, st.integers(1, 60), elements=st.integers(0, 5000)))
def test_folding_never_raises_an_entropy(tokens):
    out = np.empty(len(TOKENS))
    count_tokens(tokens, np.zeros(BUCKETS), out)
    shares = np.unique(tokens, return_counts=True)[1] / tokens.size
    assert -1e-12 <= out[0] <= -(shares * np.log(shares)).sum() + 1e-12
    assert out[1] >= shares.max()
