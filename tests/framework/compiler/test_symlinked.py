"""The engine knows its own code where it is reached through a symbolic link, as in `lib64` of some systems."""

import os
import subprocess
import sys
from pathlib import Path

import mindscope
import pytest

PROGRAM = """
import numpy as np
import mindscope
from mindscope.framework import Key, Tensor, jit, nn

assert mindscope.__file__.startswith({folder!r}), mindscope.__file__
network = nn.SequentialCell(nn.Dense(8, 4, key=Key(0)), nn.ReLU()).set_train()
x = Tensor(np.ones((2, 8), np.float32))


@jit(capture_mode={mode!r})
def forward(x):
    return network(x)


print(np.array_equal(forward(x).asnumpy(), network(x).asnumpy()))
"""


@pytest.mark.parametrize("mode", ["ast", "bytecode", "trace"])
def test_a_function_is_captured_by_a_package_behind_a_link(tmp_path: Path, mode: str) -> None:
    (tmp_path / "mindscope").symlink_to(Path(mindscope.__file__).parent, target_is_directory=True)
    script = tmp_path / "script.py"
    script.write_text(PROGRAM.format(folder=str(tmp_path), mode=mode))
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (ended.stdout, ended.returncode) == ("True\n", 0), ended.stderr[-2000:]
