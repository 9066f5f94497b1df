"""What other tools read back from an export equals what the store holds."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mindscope.probe.exchange import EXPORTERS, RunExportError, export
from mindscope.storage import Block, Layout, RunNotFound, StepRecord, Store, open_store

LAYOUT = Layout("activation", ("net.0", "net.1"), ("mean", "max"), ("float64", "float64"), calls=(0, 1))


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory:") as store:
        writer = store.begin_run("exported")
        for step in range(5):
            values = np.array([[0.1 * step, np.inf], [np.nan, 1e-300]])
            present = np.array([True, step != 3])
            record = StepRecord(step, 100.0 + step, blocks=(Block(LAYOUT, values, present),), scalars={"loss": 1 / 3})
            writer.write([record])
        writer.close()
        yield store


def test_csv_reads_back_bit_for_bit(store: Store, tmp_path: Path) -> None:
    (path,) = export(store, "exported", "csv", tmp_path)
    table = pd.read_csv(path, dtype={"value": str}, keep_default_na=False)
    table["value"] = table.value.map(float)
    means = table[(table.metric == "activation/mean") & (table.site == "net.0")]
    assert means.value.tolist() == [0.1 * step for step in range(5)]
    second = table[(table.metric == "activation/max") & (table.site == "net.1")]
    assert second.step.tolist() == [0, 1, 2, 4]
    assert second.value.eq(1e-300).all()
    assert np.isinf(table[(table.metric == "activation/max") & (table.site == "net.0")].value).all()
    assert table[table.metric == "scalar/loss"].value.eq(1 / 3).all()


def test_tensorboard_reads_what_we_write(store: Store, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    (folder,) = export(store, "exported", "tensorboard", tmp_path)
    reader = EventAccumulator(str(folder))
    reader.Reload()
    tags = reader.Tags()["tensors"]
    assert "scalar/loss" in tags
    assert "activation/mean/net.1#1" in tags
    steps = [event.step for event in reader.Tensors("activation/max/net.1#1")]
    assert steps == [0, 1, 2, 4]
    run = store.find_run("exported").id
    for tag, site, metric, call in (
        ("scalar/loss", "", "scalar/loss", 0),
        ("activation/mean/net.0", "net.0", "activation/mean", 0),
        ("activation/max/net.0", "net.0", "activation/max", 0),
        ("activation/mean/net.1#1", "net.1", "activation/mean", 1),
    ):
        read = [float(make_ndarray(event.tensor_proto)) for event in reader.Tensors(tag)]
        kept = store.series(run, site, metric, call=call).values
        np.testing.assert_array_equal(np.float32(read), np.float32(kept), err_msg=tag)


def test_what_tensorboard_cannot_hold_is_infinite_there(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    with open_store("memory:") as store:
        writer = store.begin_run("huge")
        writer.write([StepRecord(0, 100.0, scalars={"loss": 1e300})])
        writer.close()
        (folder,) = export(store, "huge", "tensorboard", tmp_path)
    reader = EventAccumulator(str(folder))
    reader.Reload()
    (event,) = reader.Tensors("scalar/loss")
    assert make_ndarray(event.tensor_proto) == np.inf


def test_an_unknown_format_names_the_nearest(store: Store, tmp_path: Path) -> None:
    with pytest.raises(RunExportError, match="did you mean 'tensorboard'"):
        export(store, "exported", "tensorbord", tmp_path)


@pytest.mark.parametrize("form", EXPORTERS)
def test_an_unknown_run_writes_nothing(store: Store, tmp_path: Path, form: str) -> None:
    with pytest.raises(RunNotFound):
        export(store, "nothing", form, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", EXPORTERS)
def test_a_folder_that_cannot_be_written_is_named(store: Store, tmp_path: Path, form: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunExportError, match="cannot be written"):
        export(store, "exported", form, tmp_path / "file" / "out")
