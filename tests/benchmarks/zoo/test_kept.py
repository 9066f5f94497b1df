"""Results are kept as long as nothing that they depend on changes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.faults.outcome import Alarm
from benchmarks.zoo.interpreters import in_clone, install, interpreter
from benchmarks.zoo.kept import MUTANT_RESULTS, Runner
from benchmarks.zoo.trial import Cost, Watched, run_plain

PYTHON = Path(sys.executable)
COUNTING = """import pathlib, sys
place = pathlib.Path({place!r})
place.write_text(place.read_text() + "x" if place.exists() else "x")
print("result", len(place.read_text()) + int(sys.argv[1]))
"""


def test_a_program_runs_again_only_when_it_or_its_seed_changes(tmp_path):
    script, place = tmp_path / "counting.py", tmp_path / "count"
    script.write_text(COUNTING.format(place=str(place)))
    runner = Runner(tmp_path / "cache")
    assert [runner.plain(PYTHON, script, 0).result for _ in range(2)] == ["1", "1"]
    assert Runner(tmp_path / "cache").plain(PYTHON, script, 0).result == "1"
    assert runner.plain(PYTHON, script, 5).result == "7"
    script.write_text(script.read_text() + "# changed\n")
    assert runner.plain(PYTHON, script, 0).result == "3"


def test_a_failing_program_has_no_result_and_says_why(tmp_path):
    script = tmp_path / "failing.py"
    script.write_text('print("result 1.0")\nraise ValueError("no data")\n')
    cost = run_plain(PYTHON, script, 0)
    assert cost.value != cost.value
    assert cost.error == "ValueError: no data"


def test_what_was_said_survives_the_file():
    said = Alarm("plateau", "plateau", "warning", "fc", 0, 9, 4, "the loss stays", 0.7)
    watched = Watched(Cost(1.0, 2.0, 3.0, "0.25", 0, ""), "unhealthy", (said,), (said,))
    assert Watched.from_json(watched.to_json()) == watched


def test_plain_programs_run_in_this_environment(tmp_path):
    assert interpreter((), tmp_path) == PYTHON


def test_a_repository_is_imported_as_it_is_at_its_commit(tmp_path, monkeypatch):
    upstream = tmp_path / "upstream"
    git = ["git", "-C", str(upstream), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "--quiet", str(upstream)], check=True)
    commits = []
    for answer in (1, 2):
        (upstream / "borrowed.py").write_text(f"ANSWER = {answer}\n")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", "x"], check=True)
        named = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
        commits.append(named.stdout.strip())
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{upstream}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/somebody/something")
    program = tmp_path / "driver.py"
    program.write_text("import borrowed, zoo_repository\nprint(borrowed.ANSWER, zoo_repository.FOLDER)\n")
    python = interpreter((f"github:somebody/something@{commits[0]}",), tmp_path / "cache")
    placed = in_clone(program, python)
    said = subprocess.run([python, placed], check=True, capture_output=True, text=True).stdout
    assert said.split() == ["1", str(placed.parent)]
    assert in_clone(program, PYTHON) == program
    with pytest.raises(RuntimeError, match="git cannot give somebody/something at 0000"):
        interpreter(("github:somebody/something@0000",), tmp_path / "cache")


def test_packages_that_cannot_be_installed_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(RuntimeError, match=r"pip cannot install no-such-package-of-ours==1\.0"):
        install(PYTHON, ("no-such-package-of-ours==1.0",), tmp_path)


def test_what_mutants_give_is_shared_between_machines(tmp_path):
    folder, place = tmp_path / "mutant_of_counting", tmp_path / "count"
    folder.mkdir()
    script, shared = folder / "counting.py", tmp_path / "shared.json"
    script.write_text(COUNTING.format(place=str(place)))
    (folder / "mutant").touch()
    (folder / "reached").touch()
    Runner(tmp_path / "here", shared=shared).plain(PYTHON, script, 0)
    assert not shared.exists()
    Runner(tmp_path / "here", shared=shared, has_additions=True).plain(PYTHON, script, 0)
    (folder / "reached").unlink()
    elsewhere = Runner(tmp_path / "there", shared=shared).plain(PYTHON, script, 0)
    assert (elsewhere.result, place.read_text()) == ("1", "x")
    assert elsewhere.cpu_s != elsewhere.cpu_s
    assert (folder / "reached").exists()


def test_the_shared_file_can_be_read():
    assert all(len(row) == 3 for row in json.loads(MUTANT_RESULTS.read_text(encoding="utf-8")).values())
