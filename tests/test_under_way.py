"""The page on what happens while a training runs, read as a reader does: its files, its training, its commands."""

import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml
from mindscope.cli import main
from mindscope.probe import load_config
from mindscope.storage import open_store
from mindscope.storage.control_channel import state_of

pytest.importorskip("torch", reason="PyTorch (torch) is not installed")

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "under_way.md").read_text()
FILES = dict(re.findall(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", PAGE, re.S))
WHILE_IT_RUNS, AFTERWARDS = (re.findall(r"^\$ mindscope (.*)$", block, re.M) for block in PAGE.split("## Afterwards"))
Say = Callable[[str], str]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    """What a command of the page prints; it must succeed."""
    monkeypatch.delenv("MINDSCOPE_STORE", raising=False)

    def call(command: str) -> str:
        code = main(shlex.split(command))
        captured = capsys.readouterr()
        assert code == 0, f"{command}\n{captured.out}\n{captured.err}"
        return " ".join(captured.out.split())

    return call


@pytest.fixture
def hook() -> Iterator[tuple[str, list[dict]]]:
    """The address of a server, and the documents that it was sent."""
    told: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing is said."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/mindscope", told
    server.shutdown()
    thread.join()
    server.server_close()


def wait_until_paused(training: "subprocess.Popen[str]") -> None:
    for _ in range(1200):
        assert training.poll() is None, training.communicate()
        with open_store("runs/") as store:
            if any(state_of(store.control_channel(run.id)).state == "paused" for run in store.runs()):
                return
        threading.Event().wait(0.1)
    raise AssertionError("the training does not wait")


def test_the_page_is_true_from_the_first_pause_to_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say, hook: tuple[str, list[dict]]
) -> None:
    monkeypatch.chdir(tmp_path)
    address, told = hook
    for name, text in FILES.items():
        (tmp_path / name).write_text(re.sub(r"http://127\S+mindscope", address, text))
    training = subprocess.Popen([sys.executable, "train.py"], stderr=subprocess.PIPE, text=True)
    try:
        wait_until_paused(training)
        said = [say(command) for command in WHILE_IT_RUNS]
        _, errors = training.communicate(timeout=120)
    finally:
        training.kill()
    assert said[0].startswith("paused after step 2 watchpoint/it moves")
    assert "head.weight: float32 (2, 32)" in said[1]
    assert "running after step 2" in said[2] or "paused after step 4" in said[2]  # whichever was first
    assert "head.bias: float32 (2,)" in said[3]
    assert "the training waits after step 4: the steps that were asked for are done" in errors
    assert training.returncode == 1
    assert "TrainingStopped: non_finite_activation at body since step 30" in errors
    found = ("bad_batch", "non_finite_activation")
    assert (tmp_path / "alerts.txt").read_text().splitlines() == [f"{cause} at step 30" for cause in found]
    assert [(one["name"], one["finding"]["cause"]) for one in told] == [("watched", cause) for cause in found]
    check_what_was_recorded()
    shown, diagnosed, replayed = (say(command) for command in AFTERWARDS)
    assert "stopped" in shown
    assert "1. bad_batch at (model) since step 30" in diagnosed
    assert "output: right" in replayed
    subprocess.run([sys.executable, "resume.py"], check=True, capture_output=True)
    with open_store("runs/") as store:
        (seam,) = store.events(store.find_run("watched again").id, kind="resume_seam")
        assert (seam.data["is_declared"], seam.data["is_same_parameters"]) == (True, True)


def check_what_was_recorded() -> None:
    """Settings of `mindscope set` hold, and the flight recorder has the steps before the anomaly all the same."""
    with open_store("runs/") as store:
        run = store.find_run("watched")
        (changed,) = store.events(run.id, kind="configuration_changed")[-1:]
        assert changed.data["watchpoints"] == [
            {"when": "scalar/loss > 8", "name": None, "severity": "warning", "pause": False}
        ]
        steps = store.series(run.id, "head.weight", "weight/l2_norm").steps.tolist()
        assert steps[:5] == [0, 1, 2, 3, 4]
        assert set(range(26, 31)) <= set(steps)
        assert not set(range(5, 26)) <= set(steps)  # some are, where a busy machine is found to wait for its data
        assert store.events(run.id, kind="flight_recorder")


def test_every_key_that_the_page_names_is_one_of_the_schema() -> None:
    config = load_config(yaml.safe_load(FILES["watched.yaml"]))
    _, *deeds = re.findall(r"^\| `(\w+)` \|", PAGE, re.M)
    for deed in deeds:
        load_config(on_finding=[{"do": deed, "call": "json:dumps"} if deed == "callback" else {"do": deed}])
    assert len(config.on_finding) == 3
    assert len(deeds) == 6
