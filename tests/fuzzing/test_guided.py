"""Coverage-guided fuzzing of every reader, where atheris is installed: `make test-all` sees to that."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzzing.readers import READERS

ROOT = Path(__file__).resolve().parents[2]
INPUTS = 10_000

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed: `make test-all`"),
    pytest.mark.timeout(1800),
]


@pytest.mark.skipif("MINDSCOPE_TEST_ALL" not in os.environ, reason="takes minutes for each reader: `make test-all`")
@pytest.mark.parametrize("reader", READERS)
def test_inputs_that_reach_new_lines_are_read_or_refused(reader: str) -> None:
    command = [sys.executable, "-m", "tests.fuzzing.guided", reader, "--inputs", str(INPUTS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, errors="replace")
    assert f"Done {INPUTS} runs" in done.stderr, done.stderr[-3000:]
    assert done.returncode == 0, done.stderr[-3000:]
