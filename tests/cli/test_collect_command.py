"""`mindscope collect`, a training that publishes, and commands that cannot read a stream."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import mindscope as ms
import pytest

TRAINING = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    x = torch.randn(64, 8)
    loss = torch.nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 20:
        with torch.no_grad():
            model[0].weight[0, 0] = float("nan")
"""


def collected(command: Callable, source: str, store: Path) -> dict:
    told = command("collect", "--from", source, "--store", store, "--until-empty", "--json")
    assert told.code == 0, told.err
    document: dict = json.loads(told.out)
    return document


def test_a_script_that_publishes_is_diagnosed_live_and_from_the_store(
    command: Callable, nats_url: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    told = command("run", "--full", "--store", nats_url, "--", script)
    assert told.code == 0
    assert "non_finite_activation at 0 since step 21" in told.err  # by the rules in the training's process
    assert f"collect it: mindscope collect --from {nats_url} --store runs/" in told.err
    assert collected(command, nats_url, tmp_path / "runs")["records"] == 30
    found = json.loads(command("diagnose", "--store", tmp_path / "runs", "--json").out)
    assert found["root_causes"][0]["cause"] == "non_finite_activation"
    (run,) = json.loads(command("runs", tmp_path / "runs", "--json").out)["runs"]
    assert (run["state"], run["last_step"]) == ("finished", 29)
    assert command("verify", "--store", tmp_path / "runs").code == 0


@pytest.mark.parametrize("words", ["diagnose", "show", "runs", "verify", "compare a b", "export latest out", "demo"])
def test_a_command_that_reads_says_where_to_read_instead(command: Callable, words: str) -> None:
    told = command(*words.split(), "--store", "nats://me:secret@host:4222/project")
    assert told.code == 3
    assert "mindscope collect --from nats://me:***@host:4222/project --store runs/" in told.err
    assert "secret" not in told.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--from", "runs/"), "is no stream"),
        (("--from", "nats://h/p", "--store", "kafka://h/p"), "must be a folder or a database"),
        (("--from", "nats://h/p", "--store", "memory:"), "cannot be filled"),
    ],
)
def test_what_cannot_be_collected_is_wrong_use(command: Callable, options: tuple[str, ...], words: str) -> None:
    told = command("collect", *options)
    assert told.code == 2
    assert words in told.err


def test_collect_until_empty_without_a_broker_ends(command: Callable, tmp_path: Path) -> None:
    told = command("collect", "--from", "nats://127.0.0.1:1/p", "--store", tmp_path, "--until-empty")
    assert told.code == 3
    (line,) = told.err.splitlines()
    assert line.startswith("mindscope: no broker answers at nats://127.0.0.1:1/p (the connection is refused): start it")


def test_ctrl_c_ends_a_collector_with_its_counts_and_what_follows_goes_to_the_next(
    command: Callable, nats_url: str, tmp_path: Path, eventually: Callable
) -> None:
    call = [sys.executable, "-m", "mindscope", "collect", "--from", nats_url, "--store", str(tmp_path / "runs")]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with ms.open_store(nats_url) as store:
        writer = store.begin_run("x", run_id="x")
        writer.write([ms.storage.StepRecord(step, time.time(), scalars={"loss": 1.0}) for step in range(10)])
        file = tmp_path / "runs" / "x.rank0.db"
        eventually(lambda: file.exists() and len(_steps(file)) == 10)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert "2 messages with 10 records stored" in out
        writer.write([ms.storage.StepRecord(10, time.time(), scalars={"loss": 1.0})])
        writer.close()
    assert collected(command, nats_url, tmp_path / "runs")["messages"] == 2
    assert _steps(file) == list(range(11))


def _steps(file: Path) -> list[int]:
    try:
        with ms.open_store(file) as store:
            return [record.step for record in store.replay("x")]
    except ms.storage.StoreError:
        return []
