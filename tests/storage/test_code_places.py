"""Whose code a file holds is told by whole names of folders."""

import os
import sysconfig
from pathlib import Path

import mindscope
import pytest
from mindscope.storage.code_places import OUR_FILES, is_library
from mindscope.storage.end_note import read_note

ROOT = Path(mindscope.__file__).parent
#: The user's own, though their paths begin as ours or as a library's do.
OWN = [
    f"{ROOT}_cases/train.py",
    str(ROOT / "examples" / "train.py"),
    str(ROOT / "probe_of_mine" / "train.py"),
    f"{sysconfig.get_path('stdlib')}_scripts/train.py",
    "/home/me/train.py",
]


@pytest.mark.parametrize("path", OWN)
def test_a_script_beside_a_folder_of_code_is_the_user_s(tmp_path, path):
    assert not path.startswith(OUR_FILES)
    assert not is_library(path)
    frames = (os.__file__, str(ROOT / "probe" / "monitor.py"), "/other/lib/python3/site-packages/torch/a.py", path)
    stack = "".join(f'  File "{file}", line {number} in f\n' for number, file in enumerate(frames, 1))
    (tmp_path / "x.end").write_text(f"Stack (most recent call first):\n{stack}")
    assert read_note(tmp_path / "x.end") == f"SIGTERM at {path}, line {len(frames)}"


@pytest.mark.parametrize("path", [os.__file__, "/other/lib/python3/site-packages/torch/nn/modules/module.py"])
def test_python_and_installed_packages_are_libraries(path):
    assert is_library(path)


def test_the_note_of_a_process_that_ended_in_a_collective_says_in_which(tmp_path):
    (tmp_path / "x.end").write_text(
        "Fatal Python error: Aborted\n\nThread 0x1 (most recent call first):\n"
        '  File "/v/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce\n'
        '  File "/v/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper\n'
        '  File "/home/me/train.py", line 38 in main\n'
    )
    assert read_note(tmp_path / "x.end") == "Aborted in all_reduce at /home/me/train.py, line 38"
