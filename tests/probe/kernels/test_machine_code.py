"""Kernels are loaded from object files that numba has written before; see `machine_code.py`."""

import platform
import subprocess
import sys

import numpy as np
import pytest
from mindscope.probe.kernels import statistics_of
from mindscope.probe.kernels.machine_code import Kernel
from mindscope.probe.kernels.object_file import Code, ObjectError

IS_KNOWN = sys.platform.startswith("linux") and platform.machine() == "x86_64"
known = pytest.mark.skipif(not IS_KNOWN, reason="object files are kept on Linux for x86-64")

_MEASURES = """
import sys
import numpy as np
from mindscope.probe.kernels import statistics_of
print(statistics_of(np.arange(5.0)).tolist())
print(sorted({name.partition(".")[0] for name in sys.modules} & {"numba", "llvmlite", "scipy"}))
"""


def _project(values: np.ndarray) -> list[float]:
    kernel, out = Kernel("comparison", "project", "v", "qqqq"), np.zeros(2)
    kernel(values.ctypes.data, values.size, 1, out.ctypes.data)
    return [*out]


@known
def test_a_process_that_measures_imports_no_compiler_once_the_kernel_is_kept():
    expected = statistics_of(np.arange(5.0)).tolist()
    done = subprocess.run([sys.executable, "-c", _MEASURES], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(expected), "[]"]


@known
def test_what_is_loaded_and_what_numba_compiles_agree_and_damage_is_mended(tmp_path, monkeypatch):
    from mindscope.probe.kernels import machine_code

    monkeypatch.setattr(machine_code, "_folder", lambda: tmp_path / "kept")
    values = np.random.default_rng(0).standard_normal(5000)
    compiled = _project(values)
    (file,) = (tmp_path / "kept").iterdir()
    assert _project(values) == compiled
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with pytest.raises(ObjectError, match="damaged"):
        machine_code._read(file)
    assert _project(values) == compiled
    assert isinstance(machine_code._read(file)[1], Code)


@known
def test_a_folder_that_cannot_be_written_to_leaves_the_kernel_at_work(tmp_path, monkeypatch):
    from mindscope.probe.kernels import machine_code

    (tmp_path / "file").touch()
    monkeypatch.setattr(machine_code, "_folder", lambda: tmp_path / "file" / "kept")
    assert _project(np.ones(3))[0] == 3.0


def test_what_is_no_object_file_for_this_machine_is_refused():
    with pytest.raises(ObjectError, match="not an object file"):
        Code(b"\x7fELF\x02\x01" + b"\0" * 100)


@known
def test_a_kernel_of_any_size_is_loaded_once_it_is_kept():
    row, values = np.empty(10), np.ones(3)
    for _ in range(2):
        kernel = Kernel("statistics", "measure", "v", "qqqq")
        kernel(values.ctypes.data, 3, 1, row.ctypes.data)
    assert isinstance(kernel._kept, Code)
