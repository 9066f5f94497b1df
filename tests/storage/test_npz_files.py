"""Files of arrays that are damaged, hold objects, or claim more than there is."""

import io
import zipfile

import numpy as np
import pytest
from mindscope.armour.errors import InvalidInput
from mindscope.armour.fuzz.fuzzer import Corpus
from mindscope.cli.failures import WrongUse
from mindscope.cli.user_code import load_samples
from mindscope.storage.npz_files import UnreadableArrays, read_npz


def _saved(**arrays) -> bytes:
    written = io.BytesIO()
    np.savez(written, **arrays)
    return written.getvalue()


def _with_header(header: str) -> bytes:
    encoded = header.encode()
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(encoded).to_bytes(2, "little") + encoded + bytes(96))
    return written.getvalue()


_SHAPE = "{{'descr': {}, 'fortran_order': False, 'shape': {}, }}\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04",
        b"no zip file",
        _saved(x=np.ones(9))[:-30],
        _saved(x=np.ones(9)).replace(b"\x93NUMPY", b"\x93NUMPX"),
        _saved(x=np.array([{}, None], object)),
        _with_header(_SHAPE.format("'<f4'", "(99999999999, 3)")),
        _with_header(_SHAPE.format("None", "(4,)")),
        _with_header("{'descr': '<f4'"),
        _with_header("[" * 500),
    ],
    ids=["empty", "start", "text", "cut", "magic", "objects", "terabytes", "no-type", "half-header", "brackets"],
)
def test_damage_is_one_error(data, tmp_path):
    path = tmp_path / "data.npz"
    path.write_bytes(data)
    with pytest.raises(UnreadableArrays, match=r"data\.npz") as caught:
        read_npz(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(WrongUse, match=r"write one with numpy\.savez"):
        load_samples(str(path))
    with pytest.raises(InvalidInput, match="remove it to start over"):
        Corpus.load(path)


def test_samples_need_a_class_for_each_input(tmp_path):
    path = tmp_path / "data.npz"
    for x, y in (
        (np.ones((3, 2)), np.arange(2)),
        (np.ones(3), np.array(["a", "b", "c"])),
        (np.float64(1), np.int64(0)),
    ):
        path.write_bytes(_saved(x=x, y=y))
        with pytest.raises(WrongUse, match="numbers x and a class y for each"):
            load_samples(str(path))
