"""DLPack both ways: memory is shared, strides and element types survive, and nothing dangles."""

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest
from mindscope.framework import Tensor, from_dlpack, ops

torch = pytest.importorskip("torch")

DTYPES = [
    "float64",
    "float32",
    "float16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "bool",
    "complex64",
    "complex128",
]


def sample(dtype, shape=(3, 4)):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_and_torch_share_the_memory(dtype):
    x = Tensor(sample(dtype))
    for other in (np.from_dlpack(x), torch.from_dlpack(x)):
        np.testing.assert_array_equal(np.asarray(other), x.numpy())
    seen = torch.from_dlpack(x)
    seen[0, 0] = 1
    assert x.numpy()[0, 0] == 1
    back = from_dlpack(torch.from_dlpack(x))
    assert np.shares_memory(back.numpy(), x.numpy())
    assert back.dtype == x.dtype


@pytest.mark.parametrize("view", [lambda x: x.T, lambda x: x[::2, 1:], lambda x: x[1]])
@pytest.mark.parametrize("dtype", ["float32", ml_dtypes.bfloat16])
def test_strides_survive(view, dtype):
    whole = sample(dtype)
    x = Tensor(view(whole))
    seen = torch.from_dlpack(x)
    np.testing.assert_array_equal(seen.float().numpy(), x.numpy().astype(np.float32))
    back = from_dlpack(view(torch.from_dlpack(Tensor(whole))))
    np.testing.assert_array_equal(back.numpy(), view(whole))
    assert np.shares_memory(back.numpy(), whole)


def test_bfloat16_is_shared_both_ways():
    x = Tensor(sample(ml_dtypes.bfloat16))
    seen = torch.from_dlpack(x)
    assert seen.dtype == torch.bfloat16
    seen[1, 1] = 7
    assert float(x[1, 1]) == 7.0
    back = from_dlpack(torch.ones(2, 3, dtype=torch.bfloat16))
    assert back.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(back.numpy().astype(np.float32), np.ones((2, 3)))


def test_memory_lives_as_long_as_the_last_who_sees_it():
    array = sample(ml_dtypes.bfloat16)
    alive = weakref.ref(array)
    seen = torch.from_dlpack(Tensor(array))
    del array
    gc.collect()
    assert alive() is not None
    assert float(seen.float().sum()) == 66.0
    del seen
    gc.collect()
    assert alive() is None


def test_a_capsule_that_nobody_takes_lets_go():
    array = sample(ml_dtypes.bfloat16)
    alive = weakref.ref(array)
    capsule = Tensor(array).__dlpack__()
    del array, capsule
    gc.collect()
    assert alive() is None


def test_what_was_received_outlives_its_source():
    back = from_dlpack(torch.full((1000,), 3.0, dtype=torch.bfloat16))
    gc.collect()
    assert float(back.astype("float32").sum()) == 3000.0


def test_read_only_arrays_stay_read_only():
    array = sample("float32")
    array.setflags(write=False)
    assert not np.from_dlpack(Tensor(array)).flags.writeable
    frozen = Tensor(sample(ml_dtypes.bfloat16))
    frozen.numpy().setflags(write=False)
    with pytest.raises(BufferError, match="read-only bfloat16"):
        frozen.__dlpack__()


def test_a_tensor_that_requires_a_gradient_is_detached_first():
    x = Tensor(sample("float32"), requires_grad=True)
    with pytest.raises(BufferError, match=r"use x\.detach"):
        np.from_dlpack(x)
    assert np.shares_memory(np.from_dlpack(x.detach()), x.numpy())


def test_other_devices_are_refused():
    x = Tensor(sample("float32"))
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="to device"):
        x.__dlpack__(dl_device=(2, 0))

    class Elsewhere:
        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(BufferError, match="an array on the CPU, got device type 2"):
        from_dlpack(Elsewhere())


def test_jax_shares_the_memory():
    jax = pytest.importorskip("jax", reason="needs JAX (extra 'xla')")
    source = jax.numpy.arange(64, dtype="float32")
    back = from_dlpack(source)
    np.testing.assert_array_equal(back.numpy(), np.arange(64))
    assert not back.numpy().flags.writeable
    np.testing.assert_array_equal(np.asarray(jax.numpy.from_dlpack(back + 1.0)), np.arange(64) + 1)
    narrow = from_dlpack(jax.numpy.ones(8, "bfloat16"))
    assert float(ops.sum(narrow)) == 8.0
