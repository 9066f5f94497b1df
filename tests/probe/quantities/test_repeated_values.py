"""Batches that have the same values in other places are told apart; those that are repeated are the same to the bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.probe import watch
from mindscope.probe.hooks.repeated_values import checksum_of_places
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def checksums_of(batches, *, together=False):
    """The checksums that a training records; `together` gives the model two tensors in a tuple."""
    model = torch.nn.Linear(64, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    wrapped = Two(model) if together else model
    with open_store("memory:") as store:
        with watch(wrapped, optimizer, store=store):
            for batch in batches:
                answer = wrapped((batch, batch)) if together else wrapped(batch)
                optimizer.zero_grad()
                answer.square().mean().backward()
                optimizer.step()
        run = store.find_run("latest").id
        return store.series(run, "", "scalar/batch/checksum").values.tolist()


class Two(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, pair):
        return self.inner(pair[0]) + self.inner(pair[1])


def squares(seed):
    """Eight pictures `(8, 8)` of one square of four pixels, which lies on even places: all have the same words."""
    chosen = np.random.default_rng(seed).integers(0, 4, (8, 2)) * 2
    pictures = torch.zeros(8, 8, 8)
    for picture, (row, column) in zip(pictures, chosen.tolist(), strict=True):
        picture[row : row + 2, column : column + 2] = 1.0
    return pictures.flatten(1)


@pytest.mark.parametrize("together", [False, True], ids=["one tensor", "two"])
def test_pictures_of_the_same_pixels_in_other_places_are_other_batches(together):
    checksums = checksums_of([squares(seed) for seed in range(12)], together=together)
    assert len(set(checksums)) == 11  # the second is the first of which the places are read
    assert checksums[0] == checksums[1]


@pytest.mark.parametrize("together", [False, True], ids=["one tensor", "two"])
def test_a_batch_that_is_repeated_stays_the_same_in_any_order(together):
    batch = squares(0)
    orders = [torch.randperm(8, generator=torch.Generator().manual_seed(seed)) for seed in range(14)]
    assert len(set(checksums_of([batch[order] for order in orders], together=together))) == 1


@given(st.integers(2, 9), st.integers(1, 40), st.sampled_from([np.uint8, np.int16, np.float32, np.float64]))
def test_places_count_and_the_order_of_samples_does_not(samples, size, dtype):
    values = np.random.default_rng(samples * 41 + size).integers(0, 2, (samples, size)).astype(dtype)
    assert checksum_of_places(values) == checksum_of_places(values[::-1])
    turned = np.roll(values, 1, axis=1)
    alike = sorted(map(bytes, turned)) == sorted(map(bytes, values))
    assert (checksum_of_places(turned) == checksum_of_places(values)) == alike


@pytest.mark.parametrize("shape", [(), (5,), (0, 3), (3, 0)])
def test_what_has_no_places_is_zero(shape):
    assert checksum_of_places(np.ones(shape, np.float32)) == 0
