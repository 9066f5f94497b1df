"""Checkpoints: what is written comes back bit for bit, misfits are told of, and a failed save costs nothing."""

import os

import ml_dtypes
import numpy as np
import pytest
from mindscope.framework import Key, Parameter, Tensor
from mindscope.framework.nn import Dense, SequentialCell
from mindscope.framework.serialization import (
    CheckpointError,
    load_checkpoint,
    load_metadata,
    load_param_into_net,
    save_checkpoint,
)


def _net(seed=0, width=3):
    return SequentialCell(Dense(2, width, key=Key(seed)), Dense(width, 1, key=Key(seed + 1)))


def test_a_network_comes_back_bit_for_bit(tmp_path):
    net, other = _net(0), _net(7)
    save_checkpoint(net, tmp_path / "net.safetensors", metadata={"step": 3, "note": "ü"})
    arrays = [p.numpy() for p in other.get_parameters()]
    loaded = load_checkpoint(tmp_path / "net.safetensors", other)
    assert list(loaded) == sorted(net.parameters_dict())
    for own, expected, array in zip(other.get_parameters(), net.get_parameters(), arrays, strict=True):
        np.testing.assert_array_equal(own.numpy(), expected.numpy())
        assert own.numpy() is array  # loaded in place: optimizers keep their views
    assert load_metadata(tmp_path / "net.safetensors") == {"step": 3, "note": "ü"}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int8", "uint8", "bool", "bfloat16"])
def test_every_dtype_and_the_special_values_survive(tmp_path, dtype):
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    values = np.array([[0, 1], [1, 0]]).astype(kind)
    if kind.kind == "f" or dtype == "bfloat16":
        values[0] = [np.nan, -np.inf]
    save_checkpoint({"a": values, "scalar": np.ones((), kind), "empty": np.zeros((0, 3), kind)}, tmp_path / "x")
    loaded = load_checkpoint(tmp_path / "x")
    assert loaded["a"].numpy().dtype == kind
    assert loaded["a"].numpy().tobytes() == values.tobytes()
    assert loaded["scalar"].shape == ()
    assert loaded["empty"].shape == (0, 3)


def test_arrays_out_of_order_in_memory_are_written_by_their_values(tmp_path):
    values = np.arange(6.0).reshape(2, 3)
    save_checkpoint({"t": values.T, "tensor": Tensor(values[:, ::2])}, tmp_path / "x")
    loaded = load_checkpoint(tmp_path / "x")
    np.testing.assert_array_equal(loaded["t"].numpy(), values.T)
    np.testing.assert_array_equal(loaded["tensor"].numpy(), values[:, ::2])


def test_parameters_are_saved_under_their_names(tmp_path):
    save_checkpoint([Parameter(np.ones(2), "w"), Parameter(np.ones(3), "b")], tmp_path / "x")
    assert {name: p.shape for name, p in load_checkpoint(tmp_path / "x").items()} == {"w": (2,), "b": (3,)}
    for names in (("w", "w"), ("", "b")):
        with pytest.raises(CheckpointError, match="names of their own"):
            save_checkpoint([Parameter(np.ones(2), name) for name in names], tmp_path / "y")


def test_all_that_does_not_fit_is_listed_and_nothing_is_changed():
    net = _net()
    before = {name: p.asnumpy() for name, p in net.parameters_dict().items()}
    given = {name: p.numpy() + 1 for name, p in net.parameters_dict().items()}
    del given["0.bias"]
    given |= {"1.weight": np.zeros((9, 9)), "more": np.zeros(1), "most": np.zeros(1)}
    with pytest.raises(CheckpointError) as told:
        load_param_into_net(net, given)
    for words in ("1 missing: 0.bias", "2 extra: more, most", r"1.weight (has (1, 3), got (9, 9))", "SequentialCell"):
        assert words in str(told.value)
    assert all(np.array_equal(p.numpy(), before[name]) for name, p in net.parameters_dict().items())


def test_loose_loading_takes_what_fits_and_returns_the_rest():
    net = _net()
    given = {"0.weight": np.full((3, 2), 5.0), "more": np.zeros(1)}
    missing, extra = load_param_into_net(net, given, strict=False)
    assert (missing, extra) == (["0.bias", "1.weight", "1.bias"], ["more"])
    assert (net.parameters_dict()["0.weight"].numpy() == 5.0).all()
    assert net.parameters_dict()["0.weight"].numpy().dtype == np.float32
    with pytest.raises(CheckpointError, match="of another shape"):
        load_param_into_net(net, {"0.weight": np.zeros(2)}, strict=False)


def test_a_file_cut_short_anywhere_gives_one_clear_error(tmp_path):
    path = tmp_path / "net.safetensors"
    save_checkpoint(_net(), path)
    whole = path.read_bytes()
    for length in (0, 4, 8, 9, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="cannot be read as a checkpoint"):
            load_checkpoint(path, _net())


@pytest.mark.parametrize("content", [b"not a checkpoint at all", b"\xff" * 64, b"PK\x03\x04" + b"\0" * 60])
def test_other_files_are_no_checkpoints(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    for read in (load_checkpoint, load_metadata):
        with pytest.raises(CheckpointError, match="no safetensors file, or was cut short or damaged"):
            read(tmp_path / "x")


def test_a_path_without_file_or_with_a_folder_is_told_of(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        load_checkpoint(tmp_path / "none")
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_checkpoint(tmp_path)
    with pytest.raises(FileNotFoundError):
        save_checkpoint(_net(), tmp_path / "no" / "folder")


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_save_that_fails_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch, moment):
    path = tmp_path / "net.safetensors"
    save_checkpoint(_net(1), path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, moment, fail)
        with pytest.raises(OSError, match="no space left"):
            save_checkpoint(_net(2), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["net.safetensors"]


def test_arrays_safetensors_does_not_know_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match="cannot be written"):
        save_checkpoint({"names": np.array(["a", "b"])}, tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_the_file_is_readable_by_whom_the_umask_allows(tmp_path):
    old = os.umask(0o027)
    try:
        save_checkpoint(_net(), tmp_path / "x")
    finally:
        os.umask(old)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640
