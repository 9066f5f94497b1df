"""Checksums and projections where tensors lie, against the kernels of the processor."""

import numpy as np
import pytest
from mindscope.probe.kernels import MORE, STATISTICS, measure_more_many, table_of, values_at
from mindscope.probe.kernels.fingerprints import project

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.adapters.torch.torch_tensors import place_of  # noqa: E402  after it is known that torch is there
from mindscope.probe.kernels.device import device_statistics as comparing  # noqa: E402

CHECKSUM = 1 << list(MORE).index("checksum")


def made(*shape, seed=0, dtype=torch.float32):
    return torch.from_numpy(np.random.default_rng(seed).normal(0.1, 2.0, shape)).to(dtype)


def expected(tensors):
    """(checksums, projections) by the kernels of the processor."""
    placed = [place_of(one) for one in tensors]
    table = table_of([place for place, _ in placed], [owner for _, owner in placed])
    rows = np.empty((len(tensors), len(STATISTICS) + 1))
    measure_more_many(table.addresses, table.sizes, table.codes, rows, len(STATISTICS), CHECKSUM)
    both = np.zeros((len(tensors), 2))
    for (place, _), row in zip(placed, both, strict=True):
        project(values_at(*place), row)
    return rows[:, -1], both


def check(tensors):
    checksums, projections = expected(tensors)
    np.testing.assert_array_equal(comparing.checksums_on_device(tensors).numpy(), checksums)
    np.testing.assert_allclose(comparing.projections_on_device(tensors).numpy(), projections, rtol=1e-9, atol=1e-9)


SEVERAL = {
    "one": [made(7)],
    "small ones together": [made(3, 4), made(5, seed=1), made(1, seed=2), made(100, seed=3)],
    "empty ones among them": [torch.empty(0), made(4), torch.empty(0), made(2, seed=1), torch.empty(0)],
    "only an empty one": [torch.empty(0)],
    "scalars and other orders": [torch.tensor(2.5), made(6, 5).T, made(8, 6)[::2, ::3]],
    "of several dtypes": [made(9, dtype=one) for one in (torch.float32, torch.bfloat16, torch.float64, torch.float16)],
}


@pytest.mark.parametrize("several", SEVERAL.values(), ids=SEVERAL)
def test_they_are_those_of_the_processor(several):
    check(several)


def test_what_is_large_is_read_in_pieces_and_alone(monkeypatch):
    comparing._signs.cache_clear()
    monkeypatch.setattr(comparing, "_PIECE", 64)
    check([made(10), made(200, seed=1), made(60, seed=2), made(64, seed=3), made(65, seed=4), made(3, seed=5)])
    comparing._signs.cache_clear()


def test_one_bit_changes_the_checksum_of_its_tensor_alone():
    several = [made(50, seed=number) for number in range(4)]
    before = comparing.checksums_on_device(several)
    several[2].view(torch.int32)[17] ^= 1
    assert (comparing.checksums_on_device(several) != before).tolist() == [False, False, True, False]
