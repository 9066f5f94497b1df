"""A script that sets the number of threads at its top gets it from NumPy, although NumPy is loaded before it."""

import os
import subprocess
import sys

import pytest
from mindscope.cli.thread_variables import settings_of

NAME = "OPENBLAS_NUM_THREADS"


@pytest.mark.parametrize(
    "line",
    [
        f"os.environ['{NAME}'] = '1'",
        f"os.environ.setdefault('{NAME}', str(1))",
        f"os.environ.update({{'{NAME}': '1'}})",
        f"os.environ.update({NAME}='1')",
        f"os.environ |= {{'{NAME}': '1'}}",
        f"threads = 1\nfor name in ('OMP_NUM_THREADS', '{NAME}'):\n    os.environ[name] = str(threads)",
    ],
)
def test_plain_assignments_are_read(line):
    assert settings_of(f"import os\n{line}\nimport numpy\n", {})[NAME] == "1"


@pytest.mark.parametrize(
    "text",
    [
        f"import numpy\nimport os\nos.environ['{NAME}'] = '1'",  # which is too late without mindscope as well
        f"import os\nos.environ['{NAME}'] = os.environ['MINE']",
        f"import os\nif os.cpu_count() > 9:\n    os.environ['{NAME}'] = '1'",
        f"import os\nsettings = {{}}\nsettings['{NAME}'] = '1'",
        "import os\nos.environ['HOME'] = '/'",
    ],
    ids=["behind an import", "not plain", "under a condition", "elsewhere", "another"],
)
def test_whatever_else_is_left_to_the_script(text):
    assert settings_of(text, {}) == {}


def test_a_default_gives_way_to_what_is_set():
    assert settings_of(f"import os\nos.environ.setdefault('{NAME}', '1')", {NAME: "3"}) == {}


SCRIPT = """
import os
print("before", os.environ.get("OPENBLAS_NUM_THREADS"))
{line}
import numpy, threadpoolctl
print("threads", [pool["num_threads"] for pool in threadpoolctl.threadpool_info()])
"""


def _ran(tmp_path, line):
    (tmp_path / "train.py").write_text(SCRIPT.format(line=line))
    clean = {name: value for name, value in os.environ.items() if not name.endswith("NUM_THREADS")}
    words = [sys.executable, "-m", "mindscope", "run", "--store", str(tmp_path / "runs"), "--", "train.py"]
    return subprocess.run(words, cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=120, check=True)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one thread is all there is")
def test_a_watched_script_gets_the_threads_that_it_sets(tmp_path):
    pytest.importorskip("threadpoolctl", reason="threadpoolctl is not installed")
    told = _ran(tmp_path, f"os.environ['{NAME}'] = '1'")
    assert told.stdout.splitlines() == ["before None", "threads [1]"]
    assert NAME not in told.stderr


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one thread is all there is")
def test_what_comes_too_late_is_told(tmp_path):
    pytest.importorskip("threadpoolctl", reason="threadpoolctl is not installed")
    told = _ran(tmp_path, f"os.environ['{NAME}'] = str(2 - 1)")
    assert f"the script has set {NAME}=1, but NumPy was loaded before it" in told.stderr
