import json

import numpy as np
import pytest
from mindscope.storage import Event, StepRecord, blobs_of, open_store


@pytest.fixture
def dumped(tmp_path):
    """A store with a training that has dumped its one weight at four steps, and a file with its loss."""
    folder = tmp_path / "runs"
    with open_store(str(folder)) as store:
        writer = store.begin_run("training")
        blobs = blobs_of(str(folder), writer.run.id)
        records = []
        for step in range(4):
            digest = blobs.put(np.array([[3.0 - step, step**2]])).digest
            event = Event("tensor", step, "w", data={"subject": "weight", "call": 0, "digest": digest})
            records.append(StepRecord(step, step, events=(event,)))
        writer.write(records)
        writer.close()
    (tmp_path / "loss.py").write_text("def loss(weights):\n    return float((weights['w'] ** 2).sum()) + 1.0\n")
    return folder, f"{tmp_path / 'loss.py'}:loss"


def test_landscape_draws_and_stores_the_surface_along_the_path(command, dumped):
    folder, loss = dumped
    told = command("landscape", "training", "--store", folder, "--loss", loss, "--resolution", 5)
    assert told.code == 0
    assert "loss 82 at the weights" in told.out
    assert "4 steps of the training" in told.out
    assert "stored as" in told.err
    runs = json.loads(command("runs", folder, "--json").out)["runs"]
    assert [run["kind"] for run in runs] == ["evaluation", "training"]


def test_landscape_along_random_directions_as_json(command, dumped):
    folder, loss = dumped
    told = command(
        "landscape", "training", "--store", folder, "--loss", loss, "--along", "random", "--resolution", 3, "--json"
    )
    document = json.loads(told.out)
    assert document["surface"]["center_loss"] == document["surface"]["losses"][1][1] == 82.0


def test_wrong_words_are_wrong_use(command, dumped):
    folder, loss = dumped
    assert command("landscape", "--store", folder, "--loss", loss, "--along", "west").code == 2
    told = command("landscape", "--store", folder, "--loss", loss.replace(":loss", ":lost"))
    assert (told.code, "did you mean 'loss'" in told.err) == (2, True)


def test_a_loss_that_raises_is_told_with_its_place(command, dumped, tmp_path):
    folder, loss = dumped
    (tmp_path / "loss.py").write_text("def loss(weights):\n    return weights['v']\n")
    told = command("landscape", "training", "--store", folder, "--loss", loss, "--resolution", 3)
    assert told.code == 2
    assert "loss.py, line 2, KeyError: 'v'; fix it there" in told.err
