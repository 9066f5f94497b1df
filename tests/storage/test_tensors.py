"""Whole tensors come back as arrays, chosen by step, site and subject, and the page about the store says how."""

import re
from pathlib import Path

import numpy as np
import pytest
from mindscope.storage import RunNotFound, StoreUnavailable, blobs_of, open_store, read_tensors
from mindscope.storage.records import Event, StepRecord

PAGE = Path(__file__).resolve().parents[2] / "docs" / "store.md"
STORED = [
    (0, "head", "activation"),
    (0, "head.weight", "weight"),
    (2, "head[1]", "activation"),
    (2, "head.weight", "weight"),
    (4, "", "activation"),
]


def value_of(step: int, site: str) -> np.ndarray:
    return np.full((2, 3), step + len(site) / 100.0, np.float32)


@pytest.fixture
def written(tmp_path: Path):
    """(store, run) of a run with some tensors."""
    with open_store(tmp_path) as store:
        writer = store.begin_run("tensors")
        files = blobs_of(store.url, writer.run.id)
        told = {}
        for step, site, subject in STORED:
            digest = files.put(value_of(step, site)).digest
            data = {"subject": subject, "call": 0, "digest": digest}
            told[step] = (*told.get(step, ()), Event("tensor", step, site, 0, data))
        writer.write([StepRecord(step, 0.0, events=events) for step, events in told.items()])
        writer.close("finished")
        yield store, writer.run.id


def test_tensors_come_back_as_they_were_in_the_order_of_their_steps(written) -> None:
    store, run = written
    found = list(read_tensors(store, run))
    assert [(one.step, one.site, one.subject) for one in found] == STORED
    for one in found:
        np.testing.assert_array_equal(one.array, value_of(one.step, one.site))


@pytest.mark.parametrize(
    ("chosen", "places"),
    [
        ({"site": "head"}, [0, 2]),
        ({"site": "head.*"}, [1, 3]),
        ({"site": "(model)"}, [4]),
        ({"subject": "weight", "first": 1}, [3]),
        ({"first": 2, "last": 2}, [2, 3]),
        ({"site": "tail"}, []),
    ],
    ids=["module", "glob", "model", "subject", "steps", "none"],
)
def test_tensors_are_chosen_by_site_subject_and_step(written, chosen, places) -> None:
    store, run = written
    found = [(one.step, one.site, one.subject) for one in read_tensors(store, run, **chosen)]
    assert found == [STORED[place] for place in places]


def test_a_run_or_a_file_that_is_not_there_is_an_error(written) -> None:
    store, run = written
    with pytest.raises(RunNotFound):
        list(read_tensors(store, "nobody"))
    for path in blobs_of(store.url, run).folder.rglob("*.safetensors"):
        path.unlink()
    with pytest.raises(StoreUnavailable, match="was the folder moved"):
        list(read_tensors(store, run))


def test_the_program_of_the_page_reads_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    import mindscope as ms

    model = torch.nn.Sequential(torch.nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    monkeypatch.chdir(tmp_path)
    config = {"dump": {"when": 1, "subjects": ["weight"]}}
    with ms.watch(model, optimizer, store="runs/", run="first-try", config=config):
        for _ in range(3):
            model(torch.randn(2, 4)).square().sum().backward()
            optimizer.step()
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    exec(compile(program, PAGE.name, "exec"), {})
    said = capsys.readouterr().out
    assert "0.weight (3, 4)" in said
    assert "gradient/l2_norm" in said
