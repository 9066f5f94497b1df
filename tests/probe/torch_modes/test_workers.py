"""Worker processes of a data loader never record, whichever way they are started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
PROGRAM = Path(__file__).with_name("train_with_workers.py")


METHODS = [one for one in ("fork", "spawn") if one == "spawn" or hasattr(os, "fork")]


def test_workers_that_train_a_copy_of_the_model_record_nothing(tmp_path):
    command = [sys.executable, "-W", "ignore::DeprecationWarning", PROGRAM, tmp_path, *METHODS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split("\n")[:-1] == [f"{method}: finished 1 [0, 1]" for method in METHODS], done.stderr
