"""What other tools wrote comes into the store as it is: values, steps, ranks, and what could not be taken is said."""

import io
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mindscope.probe.exchange import ImportFailed, export, import_runs
from mindscope.storage import Block, InvalidName, Layout, StepRecord, open_store

LAYOUT = Layout("activation", ("net.0", "net.1"), ("mean", "max"), ("float64", "float64"), calls=(0, 1))


def recorded():
    """A store with one run of two ranks, holes, NaN and infinities in it."""
    store = open_store("memory:")
    run_id = None
    for rank in (0, 1):
        writer = store.begin_run("trained", rank=rank, run_id=run_id)
        run_id = writer.run.id
        for step in range(5):
            values = np.array([[0.1 * step + rank, np.inf], [np.nan, 1e-300]])
            block = Block(LAYOUT, values, np.array([True, step != 3]))
            writer.write([StepRecord(step, 100.0 + step, blocks=(block,), scalars={"loss": 1 / 3, "eval/loss": -0.0})])
        writer.close()
    return store


def values_of(store, run, rank):
    """Every value of a rank by its full address."""
    found = {}
    for record in store.replay(run, rank=rank):
        for name, value in record.scalars.items():
            found[record.step, "", 0, f"scalar/{name}"] = value
        for block in record.blocks:
            for row, site in enumerate(block.layout.sites):
                if block.present is None or block.present[row]:
                    call = block.layout.calls[row] if block.layout.calls else 0
                    for statistic, value in zip(block.layout.statistics, block.values[row], strict=True):
                        found[record.step, site, call, f"{block.layout.subject}/{statistic}"] = value
    return found


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_goes_round_bit_for_bit(form, tmp_path):
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    with recorded() as store, open_store("memory:") as other:
        export(store, "trained", form, tmp_path)
        ((run, notes),) = import_runs(other, tmp_path)
        assert (run.kind, run.framework, run.ranks, notes) == ("imported", form, (0, 1), ())
        for rank in (0, 1):
            before, after = values_of(store, store.find_run("latest").id, rank), values_of(other, run.id, rank)
            assert before.keys() == after.keys()
            assert all(np.float64(before[k]).tobytes() == np.float64(after[k]).tobytes() for k in before)


def test_our_tensorboard_export_comes_back_as_the_series_it_was(tmp_path):
    with recorded() as store, open_store("memory:") as other:
        export(store, "trained", "tensorboard", tmp_path)
        ((run, _),) = import_runs(other, tmp_path, name="again")
        assert (run.name, run.ranks) == ("again", (0, 1))
        before, after = values_of(store, store.find_run("latest").id, 1), values_of(other, run.id, 1)
        assert before.keys() == after.keys()
        np.testing.assert_array_equal(
            np.array([before[k] for k in before], np.float32), np.array([after[k] for k in before], np.float32)
        )


def test_scalars_and_histograms_of_torchs_own_writer_are_read(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(tmp_path / "exp1"))
    for step in range(3):
        writer.add_scalar("train/loss", 2.0**-step, step)
        writer.add_histogram("fc.weight", np.linspace(-1, 1, 100), step)
        writer.add_text("notes", "hello", step)
    writer.close()
    with open_store("memory:") as store:
        ((run, notes),) = import_runs(store, tmp_path)
        series = store.series(run.id, "", "scalar/train/loss")
        assert (run.name, series.values.tolist()) == ("exp1", [1.0, 0.5, 0.25])
        ((step, histogram), *_) = store.histograms(run.id, "fc.weight", "activation")
        assert (step, histogram.counts.sum()) == (0, 100)
        assert "notes/text_summary (text)" in notes[0]


def write_msprobe(folder: Path) -> None:
    """Folders as msprobe's monitor makes them: two ranks, an activation per micro-step, reduced gradients."""
    for rank in (0, 1):
        place = folder / f"Dec03_21-34-40-rank{rank}"
        place.mkdir(parents=True)
        actv = "vpp_stage,name,step,micro_step,norm,nans,shape\n"
        grad = "vpp_stage,name,step,norm,max,zeros\n"
        for step in (0, 1):
            for micro in (0, 1):
                actv += f'0,mlp.fc1.output,{step},{micro},{step + micro + rank},0,"[2, 3]"\n'
                actv += f'0,mlp.fc1.input,{step},{micro},{10 + step},nan,"[2, 3]"\n'
            grad += f"0,mlp.fc1.weight,{step},{0.5 * step},inf,0.25\n1,head.weight,{step},nan,1.0,0\n"
        (place / "actv_0-1.csv").write_text(actv)
        (place / "grad_reduced_0-1.csv").write_text(grad)
        (place / "moe_router_0-1.csv").write_text("vpp_stage,name,step,load\n0,moe,0,1\n")


def test_msprobes_csv_folders_become_one_run(tmp_path):
    write_msprobe(tmp_path / "output")
    with open_store("memory:") as store:
        ((run, notes),) = import_runs(store, tmp_path / "output")
        assert (run.name, run.ranks, run.last_step) == ("output", (0, 1), 1)
        activation = store.series(run.id, "mlp.fc1", "activation/l2_norm", rank=1)
        assert (activation.steps.tolist(), activation.values.tolist()) == ([0, 0, 1, 1], [1, 2, 2, 3])
        assert store.series(run.id, "mlp.fc1", "input/l2_norm").values.tolist() == [10, 10, 11, 11]
        gradient = store.series(run.id, "mlp.fc1.weight", "gradient/max")
        assert np.isposinf(gradient.values).all()
        assert store.series(run.id, "mlp.fc1.weight", "gradient/near_zero_share").values.tolist() == [0.25, 0.25]
        assert np.isnan(store.series(run.id, "1:head.weight", "gradient/l2_norm").values).all()
        assert any("moe_router" in note for note in notes)


def test_msprobes_trend_database_becomes_one_run(tmp_path):
    with sqlite3.connect(tmp_path / "monitor_data.trend.db") as database:
        database.executescript(
            "create table monitoring_targets (target_id integer primary key, target_name text, vpp_stage integer,"
            " micro_step integer);"
            "create table monitoring_metrics (metric_id integer primary key, metric_name text);"
            "create table trend_data (rank integer, step integer, target_id integer, metric_id integer, norm real,"
            " min real);"
            "insert into monitoring_targets values (1, 'fc.output', 0, 0), (2, 'fc.weight', 0, 0);"
            "insert into monitoring_metrics values (1, 'actv'), (2, 'exp_avg_sq');"
            "insert into trend_data values (0, 0, 1, 1, 3.5, -1), (0, 1, 1, 1, 4.5, -2), (3, 0, 2, 2, 1e-9, 0);"
        )
    database.close()
    with open_store("memory:") as store:
        ((run, _),) = import_runs(store, tmp_path)
        assert run.ranks == (0, 3)
        assert store.series(run.id, "fc", "activation/l2_norm").values.tolist() == [3.5, 4.5]
        assert store.series(run.id, "fc.weight", "optimizer/exp_avg_sq/l2_norm", rank=3).values.tolist() == [1e-9]


def test_a_statistic_that_is_missing_at_some_steps_is_not_invented(tmp_path):
    rows = [(0, "w", "gradient/mean", 1.0), (0, "w", "gradient/max", 2.0), (1, "w", "gradient/mean", 3.0)]
    table = pd.DataFrame([(0, s, 0, 0.0, site, 0, m, v) for s, site, m, v in rows])
    table.columns = ["rank", "step", "micro_step", "time", "site", "call", "metric", "value"]
    table.to_csv(tmp_path / "some.csv", index=False)
    with open_store("memory:") as store:
        ((run, _),) = import_runs(store, tmp_path / "some.csv")
        assert store.series(run.id, "w", "gradient/max").steps.tolist() == [0]
        assert store.series(run.id, "w", "gradient/mean").steps.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "rank,step\n", "lacks the columns|nothing at"),
        ("a.csv", "rank,step,micro_step,time,site,call,metric,value\n0,1,0,0,w,0,volume/mean,1\n", "no known subject"),
        ("a.parquet", "PAR1 and no more", "cannot be read"),
        ("monitor_data.trend.db", "not a database, but long enough to look at", "no trend database"),
        ("notes.txt", "hello", "nothing at .* looks like"),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_line(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with open_store("memory:") as store, pytest.raises(ImportFailed, match=words) as caught:
        import_runs(store, tmp_path / name)
    assert "\n" not in str(caught.value)


def test_an_unknown_format_and_a_missing_path_are_named(tmp_path):
    with open_store("memory:") as store:
        with pytest.raises(ImportFailed, match="did you mean 'tensorboard'"):
            import_runs(store, tmp_path, form="tensorbord")
        with pytest.raises(ImportFailed, match="does not exist"):
            import_runs(store, tmp_path / "nowhere")


_HEADER = "rank,step,micro_step,time,site,call,metric,value\n"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            "0,x,0,0,w,0,gradient/mean,1",
            "column 'step' expects a whole number from -9223372036854775808 to .*, got 'x'",
        ),
        ("0,1.5,0,0,w,0,gradient/mean,1", "column 'step' expects a whole number .*, got 1.5"),
        ("0,inf,0,0,w,0,gradient/mean,1", "column 'step' expects a whole number .*, got inf"),
        ("0,1,-1,0,w,0,gradient/mean,1", "column 'micro_step' expects a whole number from 0 to 2147483647, got -1"),
        ("0,1,0,0,w,0,gradient/mean,much", "cannot be read: could not convert string to float: 'much'"),
        ("0,1,0,now,w,0,gradient/mean,1", "column 'time' expects a number, got 'now'"),
        (f"0,1,0,0,{'w' * 5000},0,gradient/mean,1", "names of at most 1000 characters, got one of 5000, 'www"),
    ],
    ids=["word", "half", "infinite", "negative", "value", "time", "long"],
)
def test_a_cell_that_is_wrong_is_named_with_its_column(tmp_path, row, words):
    (tmp_path / "run.rank0.csv").write_text(_HEADER + row + "\n")
    with open_store("memory:") as store, pytest.raises(ImportFailed, match=words):
        import_runs(store, tmp_path / "run.rank0.csv")


def test_a_table_under_a_name_of_tensorboard_is_told_and_read_when_its_format_is_named(tmp_path):
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_text(_HEADER + "0,1,0,0,w,0,gradient/mean,1\n")
    with open_store("memory:") as store:
        with pytest.raises(ImportFailed, match="is no event file of TensorBoard, or damaged; name its format"):
            import_runs(store, path)
        ((run, _),) = import_runs(store, path, form="csv")
        assert store.series(run.id, "w", "gradient/mean").values.tolist() == [1.0]


def test_a_table_that_is_no_utf8_and_a_rank_that_is_no_number_of_a_process_are_told(tmp_path):
    (tmp_path / "a.csv").write_bytes((_HEADER + "0,1,0,0,wörter,0,gradient/mean,1\n").encode("latin-1"))
    (tmp_path / f"b.rank{2**40}.csv").write_text(_HEADER + "0,1,0,0,w,0,gradient/mean,1\n")
    with open_store("memory:") as store:
        with pytest.raises(ImportFailed, match="cannot be read: 'utf-8' codec"):
            import_runs(store, tmp_path / "a.csv")
        with pytest.raises(ImportFailed, match="a rank is a whole number from 0 to 2147483647, got 1099511627776"):
            import_runs(store, tmp_path / f"b.rank{2**40}.csv")


def test_a_rank_without_values_is_left_out_with_a_note(tmp_path):
    (tmp_path / "run.rank0.csv").write_text(_HEADER)
    (tmp_path / "run.rank1.csv").write_text(_HEADER + "1,1,0,0,w,0,gradient/mean,1\n")
    with open_store("memory:") as store:
        ((run, notes),) = import_runs(store, tmp_path)
        assert (run.ranks, notes) == ((1,), ("rank 0: left out, since it holds no values",))


def test_a_name_of_thousands_of_characters_is_refused(tmp_path):
    (tmp_path / "run.csv").write_text(_HEADER + "0,1,0,0,w,0,gradient/mean,1\n")
    with open_store("memory:") as store, pytest.raises(InvalidName, match="at most 1000 characters, got 5000"):
        import_runs(store, tmp_path / "run.csv", name="n" * 5000)


def test_images_and_sounds_of_torchs_own_writer_are_read_within_bounds(tmp_path):
    torch, pillow = pytest.importorskip("torch"), pytest.importorskip("PIL.Image")
    from torch.utils.tensorboard import SummaryWriter

    image = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    writer = SummaryWriter(str(tmp_path / "exp"))
    for step in range(103):
        writer.add_image("drawn", image + np.uint8(step), step, dataformats="HWC")
    writer.add_audio("spoken", torch.zeros(1, 800), 7, sample_rate=8000)
    writer.add_scalar("loss", 1.0, 7)
    writer.close()
    with open_store("memory:") as store:
        ((run, notes),) = import_runs(store, tmp_path)
        events = store.events(run.id, kind="media")
        assert [event.step for event in events if event.data["name"] == "drawn"] == [*range(101), 102]
        file = store.attachment(run.id, str(next(event for event in events if event.step == 9).data["digest"]))
        with pillow.open(io.BytesIO(file)) as read:
            np.testing.assert_array_equal(np.asarray(read), image + np.uint8(9))
        (sound,) = [event for event in events if event.data["name"] == "spoken"]
        assert (sound.step, sound.data["type"]) == (7, "audio/wav")
        assert store.attachment(run.id, str(sound.data["digest"])).startswith(b"RIFF")
        assert [record.scalars for record in store.replay(run.id, first=7, last=7)] == [{"loss": 1.0}]
        assert notes == ("rank 0: 1 images and sounds are beyond the bounds of `media` and left out",)
