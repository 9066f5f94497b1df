"""Kernels on disk: found again, harmless when damaged or when nothing can be written."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

_PROGRAM = """
import numpy as np
from mindscope.framework import Tensor, ops
from mindscope.framework.compiler import jit
x = np.linspace(-2.0, 2.0, 999)
y = jit(lambda x: ops.gelu(x * 2.5 + 0.125) * x, capture_mode="trace")(Tensor(x)).numpy()
z = (ops.gelu(Tensor(x) * 2.5 + 0.125) * Tensor(x)).numpy()
np.testing.assert_allclose(y, z, rtol=1e-12, atol=1e-12)
"""


def _run(folder):
    environment = os.environ | {"MINDSCOPE_CACHE": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_a_kernel_is_written_once_and_mended_when_it_is_damaged(tmp_path):
    _run(tmp_path)
    first = _files(tmp_path)
    assert any(path.suffix == ".nbc" for path in first)  # numba's machine code
    _run(tmp_path)
    assert _files(tmp_path) == first
    for path in first:
        path.write_bytes(b"damaged")
    _run(tmp_path)
    assert all(path.read_bytes() != b"damaged" for path in first if path.suffix == ".py")


def test_writers_at_once_do_not_disturb_each_other(tmp_path):
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(_run, [tmp_path] * 3))
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.skipif(os.name == "nt", reason="a file in the place of a folder")
def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    _run(blocked)
