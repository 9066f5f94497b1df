import json

import pytest
from mindscope.storage import StepRecord, open_store


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A store with eight runs of two rates, of which the higher is worse."""
    folder = tmp_path_factory.mktemp("lineage") / "swept"
    with open_store(str(folder)) as store:
        for number in range(8):
            lr = 0.1 if number % 2 else 0.01
            writer = store.begin_run(f"run-{number}", tags={"lr": lr})
            writer.write([StepRecord(0, 0.0, scalars={"loss": 10 * lr + 0.001 * number})])
            writer.close()
    return folder


def test_lineage_shows_what_differs_and_what_came_of_it(command, swept):
    told = command("lineage", swept, "--sort", "-loss", "--where", "lr > 0.05")
    assert (told.code, told.err) == (0, "")
    assert [word for word in told.out.split() if word.startswith("run-")] == ["run-7", "run-5", "run-3", "run-1"]
    assert "result.loss" in told.out
    assert "tag.lr" not in told.out  # no two of these differ in it
    assert "result.NAME is the last value that was logged" in told.out


def test_lineage_explains_a_result(command, swept):
    document = json.loads(command("lineage", swept, "--explain", "loss", "--json").out)
    assert document["importance"][0]["field"] == "tag.lr"
    assert document["importance"][0]["share"] > 0.99
    assert len(document["runs"]) == 8
    told = command("lineage", swept, "--explain", "loss").out
    assert "tag.lr" in told
    assert "result.NAME is the last value" in told


def test_lineage_with_columns_of_ones_own(command, swept):
    out = command("lineage", swept, "--field", "lr", "--field", "steps").out
    assert "tag.lr" in out
    assert "result." not in out


def test_unknown_fields_are_wrong_use_and_no_match_is_said(command, swept):
    told = command("lineage", swept, "--sort", "los")
    assert (told.code, told.out) == (2, "")
    assert "did you mean" in told.err
    assert "meets the conditions" in command("lineage", swept, "--where", "lr > 5").out
