"""Every example runs as a person would run it, in a process of its own, with warnings as errors."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest
from mindscope.storage import open_store

EXAMPLES = {path.stem: path for path in sorted((Path(__file__).parents[1] / "examples").glob("*.py"))}
#: A line that each example must print, to show that it has done its work.
EXPECTED = {
    "attack_a_model": "worst-case",
    "attack_on_a_cluster": "worst-case",
    "explain_a_model": "landscape: the plane shows",
    "explain_pytorch": "on the ink",
    "grpo": "wrong digits",
    "moe_language_model": "perplexity",
    "custom_operator": "loss 0.3",
    "defend_a_model": "TRADES: accuracy",
    "digits": "trained to a loss of",
    "own_quantities": "stable rank of 0.weight",
    "plain_pytorch": "trained to a loss of",
    "read_a_store": "by-hand",
    "search": "best: ",
    "unet": "overlap",
    "watch_engine": "digits: 100 steps",
    "watch_pytorch": "digits: 100 steps",
}


#: Those that show a part of the engine and watch nothing.
UNWATCHED = {"custom_operator"}
#: Those that know nothing of mindscope and are run by its command.
PLAIN = {"digits", "plain_pytorch"}


def run(name, store):
    """What the example prints, run in the folder that holds the store."""
    command = [sys.executable, "-W", "error", str(EXAMPLES[name]), str(store)]
    if name in PLAIN:
        command = [sys.executable, "-m", "mindscope", "run", "--store", str(store), "--", str(EXAMPLES[name])]
    done = subprocess.run(command, cwd=store.parent, capture_output=True, text=True, check=False)
    told = [line for line in done.stderr.splitlines() if name not in PLAIN or not line.startswith("mindscope: ")]
    assert (done.returncode, told) == (0, []), done.stderr
    return done.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_and_leaves_finished_runs_that_another_can_read(name, tmp_path):
    if (name in PLAIN or "pytorch" in name) and find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: pip install 'mindscope[torch]'")
    if name == "attack_on_a_cluster" and find_spec("distributed") is None:
        pytest.skip("Dask is not installed: pip install 'mindscope[cluster]'")
    if name == "custom_operator" and not any(map(which, ("c++", "g++", "clang++"))):
        pytest.skip("no C++ compiler on the PATH")
    assert EXPECTED[name] in run(name, tmp_path / "runs")
    if name in UNWATCHED:
        return
    with open_store(str(tmp_path / "runs")) as store:
        runs = store.runs()
    assert {found.state for found in runs} == {"finished"}
    said = run("read_a_store", tmp_path / "runs")
    assert all(found.id in said for found in runs)


#: Those that hold a model, its data and its training.
WHOLE_PROGRAMS = {"grpo", "moe_language_model", "unet"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_fits_on_one_screen(name):
    assert len(EXAMPLES[name].read_text().splitlines()) < (150 if name in WHOLE_PROGRAMS else 80)
