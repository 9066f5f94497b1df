"""One suite for every backend: the promises that stand in `storage/store.py`."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from mindscope.storage import (
    Block,
    Event,
    FormerStructure,
    MemoryStore,
    ModuleInfo,
    OptimizerInfo,
    Outcome,
    ParameterInfo,
    RunNotFound,
    StepRecord,
    Store,
    StoreError,
    StoreUnavailable,
    Structure,
    open_store,
    quantize,
)
from mindscope.storage.attachments import Attachment
from mindscope.storage.records import joined

from tests.storage.samples import finding, layout, walk

LAYOUTS = (layout(40), layout(21, "gradient"), layout(20, "gradient", part=1))


def assert_same(written, read) -> None:
    assert (read.step, read.micro_step, read.time, read.skipped) == (
        written.step,
        written.micro_step,
        written.time,
        written.skipped,
    )
    assert [block.layout for block in read.blocks] == [block.layout for block in written.blocks]
    for mine, theirs in zip(written.blocks, read.blocks, strict=True):
        expected = quantize(mine)
        assert theirs.values.tobytes() == expected.values.tobytes()
        assert (theirs.present is None) == (expected.present is None)
        if expected.present is not None:
            np.testing.assert_array_equal(theirs.present, expected.present)
    assert {name: repr(value) for name, value in read.scalars.items()} == {
        name: repr(float(value)) for name, value in written.scalars.items()
    }
    assert read.events == written.events
    assert len(read.histograms) == len(written.histograms)
    for mine, theirs in zip(written.histograms, read.histograms, strict=True):
        assert (theirs.site, theirs.subject, theirs.call) == (mine.site, mine.subject, mine.call)
        np.testing.assert_array_equal(theirs.edges, mine.edges)
        np.testing.assert_array_equal(theirs.counts, mine.counts)


def write_all(store: Store, records, batch: int = 50, **options):
    """A finished run with these records, and the same in memory, read naively."""
    run = ""
    reference = MemoryStore()
    for one in (store, reference):
        writer = one.begin_run("walk", run_id=run or None, **options)
        run = writer.run.id
        for at in range(0, len(records), batch):
            writer.write(records[at : at + batch])
            while writer.maintain():
                pass
        writer.close()
    return run, reference


def test_records_come_back_bit_for_bit_in_the_layouts_dtypes(store: Store) -> None:
    records = walk(300, *LAYOUTS)
    run, _ = write_all(store, records)
    read = list(store.replay(run))
    assert len(read) == len(records)
    for written, one in zip(records, read, strict=True):
        assert_same(written, one)


@pytest.mark.parametrize(
    "bounds", [{"first": 250, "last": 270}, {"limit": 7}, {"first": 290, "limit": 100}, {"last": -1}]
)
def test_replay_is_bounded_by_steps_and_limit(store: Store, bounds) -> None:
    records = walk(300, layout(3))
    run, reference = write_all(store, records)
    expected = [one.step for one in reference.replay(run, **bounds)]
    assert [one.step for one in store.replay(run, **bounds)] == expected


def test_micro_steps_of_a_step_stay_in_order(store: Store) -> None:
    records = [one for step in range(140) for one in _micro_steps(step)]
    run, _ = write_all(store, records, batch=33)
    assert [(one.step, one.micro_step) for one in store.replay(run)] == [(s, m) for s in range(140) for m in range(3)]
    series = store.series(run, "layer.2", "activation/mean", first=130, last=131)
    assert series.steps.tolist() == [130, 130, 130, 131, 131, 131]


def _micro_steps(step: int):
    (record,) = walk(1, layout(5), seed=step, first=step)
    for micro_step in range(3):
        yield type(record)(step, record.time, micro_step, blocks=record.blocks)


def test_a_series_has_every_value_where_the_limit_allows(store: Store) -> None:
    run, reference = write_all(store, walk(600, *LAYOUTS, stride=3))
    metrics, sites = ("activation/mean", "activation/l2_norm", "activation/zeros"), ("layer.1", "layer.2", "layer.39")
    ranges = ({}, {"first": 700, "last": 1600}, {"last": 5})
    for metric, site, bounds in itertools.product(metrics, sites, ranges):
        expected, got = (one.series(run, site, metric, limit=5000, **bounds) for one in (reference, store))
        assert got.total == expected.total
        np.testing.assert_array_equal(got.steps, expected.steps)
        np.testing.assert_array_equal(got.values, expected.values)
        np.testing.assert_array_equal(got.times, expected.times)


def test_a_thinned_series_keeps_the_extremes_and_every_non_finite_value(store: Store) -> None:
    run, reference = write_all(store, walk(5000, layout(18)), batch=500)
    for limit in (40, 300, 700):
        for site in ("layer.1", "layer.2", "layer.17"):
            whole = reference.series(run, site, "activation/mean", limit=10**6)
            thin = store.series(run, site, "activation/mean", limit=limit)
            assert len(thin.values) <= limit
            assert thin.total == whole.total
            points = dict(zip(whole.steps.tolist(), map(repr, whole.values.tolist()), strict=True))
            assert all(points[s] == repr(v) for s, v in zip(thin.steps.tolist(), thin.values.tolist(), strict=True))
            assert np.nanmin(np.ma.masked_invalid(thin.values)) == np.nanmin(np.ma.masked_invalid(whole.values))
            assert np.nanmax(np.ma.masked_invalid(thin.values)) == np.nanmax(np.ma.masked_invalid(whole.values))
            strange = whole.steps[~np.isfinite(whole.values)]
            if len(strange) <= limit // 2:
                assert set(strange.tolist()) <= set(thin.steps.tolist())


def test_a_thinned_series_begins_and_ends_as_the_whole_one(store: Store) -> None:
    run, reference = write_all(store, walk(5000, layout(3)), batch=500)
    for site, metric in (("layer.1", "activation/mean"), ("", "scalar/loss")):
        whole = reference.series(run, site, metric, limit=10**6)
        for limit in (4, 40, 400):
            thin = store.series(run, site, metric, limit=limit)
            assert len(thin.values) <= limit
            assert thin.steps[[0, -1]].tolist() == whole.steps[[0, -1]].tolist()
            np.testing.assert_array_equal(thin.values[[0, -1]], whole.values[[0, -1]])


def test_scalars_are_series_of_the_root_with_nan_infinite_and_missing_apart(store: Store) -> None:
    run, reference = write_all(store, walk(280, layout(2)))
    for name in ("loss", "learning_rate", "loss_scale"):
        expected, got = (one.series(run, "", f"scalar/{name}") for one in (reference, store))
        np.testing.assert_array_equal(got.steps, expected.steps)
        assert got.values.tobytes() == expected.values.tobytes()
    assert math.isnan(got.values[0]) is False
    assert store.series(run, "", "scalar/loss_scale").steps[0] == 20
    assert {"scalar/loss", "scalar/learning_rate", "scalar/loss_scale", "activation/std"} <= set(store.metrics(run))


@pytest.mark.parametrize("limit", [1000, 60, 7])
def test_a_matrix_holds_every_value_in_some_column(store: Store, limit: int) -> None:
    run, reference = write_all(store, walk(700, *LAYOUTS), batch=100)
    for metric in ("activation/mean", "gradient/l2_norm"):
        expected = reference.matrix(run, metric, limit=10**6)
        got = store.matrix(run, metric, limit=limit)
        assert got.sites == expected.sites
        assert got.low.shape == (len(got.sites), len(got.steps))
        assert len(got.steps) <= limit
        np.testing.assert_array_equal(got.present.sum(axis=1), expected.present.sum(axis=1))
        np.testing.assert_array_equal(got.non_finite.sum(axis=1), expected.non_finite.sum(axis=1))
        np.testing.assert_array_equal(np.nanmin(got.low, axis=1), np.nanmin(expected.low, axis=1))
        np.testing.assert_array_equal(np.nanmax(got.high, axis=1), np.nanmax(expected.high, axis=1))


def test_a_matrix_within_its_limit_is_the_values_themselves(store: Store) -> None:
    run, reference = write_all(store, walk(150, *LAYOUTS))
    expected, got = (one.matrix(run, "gradient/min", first=20, last=140) for one in (reference, store))
    for name in ("steps", "low", "high", "non_finite", "present"):
        np.testing.assert_array_equal(getattr(got, name), getattr(expected, name))


def test_unknown_sites_and_metrics_give_empty_pictures(store: Store) -> None:
    run, _ = write_all(store, walk(3, layout(2)))
    with pytest.warns(UserWarning, match="no site 'nowhere'"):
        assert len(store.series(run, "nowhere", "activation/mean").values) == 0
    with pytest.warns(UserWarning, match="activation/nothing"):
        assert len(store.series(run, "layer.0", "activation/nothing").values) == 0
    assert len(store.series(run, "layer.0", "activation/mean", call=3).values) == 0
    assert store.matrix(run, "weight/mean").low.shape == (0, 0)


def test_a_failed_write_leaves_nothing_behind(store: Store) -> None:
    records = walk(4, layout(2))
    writer = store.begin_run("atomic")
    writer.write(records[:2])
    with pytest.raises(StoreError, match="expects a record after step 2"):
        writer.write([records[2], records[1]])
    bent = replace(records[3], blocks=(Block(layout(2, "weight"), np.zeros((3, 10))),))
    with pytest.raises(StoreError, match=r"expects values of shape \(2, 10\), got \(3, 10\)"):
        writer.write([records[2], bent])
    assert [one.step for one in store.replay(writer.run.id)] == [0, 1]
    writer.write(records[2:])
    assert [one.step for one in store.replay(writer.run.id)] == [0, 1, 2, 3]
    writer.close()


def test_a_run_tells_its_state_findings_and_newest_step(store: Store) -> None:
    writer = store.begin_run("digits", tags={"lr": 3e-4}, config={"every": 2}, framework="engine")
    run = writer.run.id
    assert store.find_run(run).state == "running"
    writer.write(walk(9, layout(2)), [finding(), finding(severity="error", site="layer.0")])
    seen = store.find_run(run)
    assert (seen.last_step, seen.findings, seen.worst, seen.framework) == (8, 2, "error", "engine")
    assert dict(seen.tags) == {"lr": 3e-4}
    assert dict(seen.config) == {"every": 2}
    writer.close("failed", "ValueError: no")
    writer.close()
    ended = store.find_run(run)
    assert (ended.state, ended.error) == ("failed", "ValueError: no")
    with pytest.raises(StoreError, match="closed"):
        writer.write(walk(1, layout(2), first=20))


def test_findings_are_ordered_replaced_and_muted(store: Store) -> None:
    writer = store.begin_run("findings")
    late, early = finding(9, order=(0, 3, 0)), finding(2, rule="vanishing")
    writer.write(walk(1, layout(2)), [late, early, finding(9, order=(0, 1, 0), site="layer.0", severity="info")])
    writer.write((), [finding(9, explanation="again", order=(0, 3, 0))])
    run = writer.run.id
    assert [(one.first_step, one.order) for one in store.findings(run)] == [
        (2, (0, 1, 4)),
        (9, (0, 1, 0)),
        (9, (0, 3, 0)),
    ]
    assert store.findings(run)[2].explanation == "again"
    assert math.isnan(store.findings(run)[0].evidence["limit"])
    assert store.findings(run)[0].evidence["top"] == math.inf
    assert len(store.findings(run, minimum="warning")) == 2
    assert len(store.findings(run, limit=1)) == 1
    store.mute(run, "vanishing", "layer.1")
    assert [one.rule for one in store.findings(run)] == ["dead-relu", "dead-relu"]
    assert store.find_run(run).findings == 2
    assert store.muted(run) == (("vanishing", "layer.1"),)
    store.mute(run, "vanishing", "layer.1", muted=False)
    assert store.muted(run) == ()
    assert len(store.findings(run)) == 3
    writer.close()
    store.write_findings(run, [finding(1, rule="offline")])
    assert store.findings(run)[0].rule == "offline"


def test_events_and_histograms_are_the_newest_and_evenly_thinned(store: Store) -> None:
    run, reference = write_all(store, walk(300, layout(2)))
    assert store.events(run) == reference.events(run)
    assert [one.step for one in store.events(run, limit=2)] == [217, 267]
    assert store.events(run, kind="exception") == ()
    steps = [step for step, _ in store.histograms(run, "layer.0", "weight", limit=4)]
    assert steps == [step for step, _ in reference.histograms(run, "layer.0", "weight", limit=4)]
    assert (steps[0], steps[-1], len(steps)) == (0, 290, 4)


def test_events_may_belong_to_no_record(store: Store) -> None:
    writer = store.begin_run("events")
    writer.write_events([Event("observations_lost", 7, data={"count": 3})])
    assert store.events(writer.run.id) == (Event("observations_lost", 7, data={"count": 3}),)
    writer.close()


def test_events_come_in_the_order_in_which_they_became_known(store: Store) -> None:
    with store:
        writer = store.begin_run("late")
        late = [Event("tensor", 0, "a", 0), Event("tensor", 0, "b", 0)]  # known with the record behind theirs
        writer.write([StepRecord(0, 1.0, 0), StepRecord(0, 2.0, 1, events=tuple(late))])
        writer.write_events([Event("tensor", 0, "c", 0)])
        assert [one.site for one in store.events(writer.run.id)] == ["a", "b", "c"]
        assert [one.site for one in store.events(writer.run.id, limit=2)] == ["b", "c"]
        writer.close()


def test_outcomes_replace_and_keep_not_a_number(store: Store) -> None:
    with store:
        writer = store.begin_run("attacks", kind="evaluation", parent="some-run")
        writer.write_outcomes([Outcome("pgd", "linf", 0.1, 0.4, 100), Outcome("fgsm", "linf", 0.2, 0.5, 100)])
        writer.write_outcomes([Outcome("pgd", "linf", 0.1, 0.3, 100, 0.05, {"steps": 40})])
        found = store.outcomes(writer.run.id)
        assert [(one.attack, one.accuracy) for one in found] == [("fgsm", 0.5), ("pgd", 0.3)]
        assert math.isnan(found[0].median_distance)
        assert found[1].details == {"steps": 40}
        assert store.find_run(writer.run.id).parent == "some-run"
        writer.close()


def test_the_structure_comes_back_and_is_replaced(store: Store) -> None:
    writer = store.begin_run("structure")
    assert store.structure(writer.run.id) == Structure()
    structure = Structure(
        modules=(ModuleInfo("", "Net", 3, is_leaf=False), ModuleInfo("fc", "Dense", 0, ("",))),
        parameters=(ParameterInfo("fc.weight", (3, 4), "float32", True, (0, 1), 7), ParameterInfo("b", (), "bfloat16")),
        optimizers=(OptimizerInfo("Adam", ({"lr": 0.1, "betas": [0.9, 0.99]},)),),
        subjects=("activation",),
    )
    writer.write_structure(Structure(subjects=("weight",)))
    writer.write_structure(structure)
    assert store.structure(writer.run.id) == structure
    writer.close()


def test_a_former_structure_stays_that_of_the_records_that_came_with_it(store: Store) -> None:
    first, second, third = (Structure(modules=(ModuleInfo(name, "Net"),)) for name in ("a", "b", "c"))
    writer = store.begin_run("former")
    run = writer.run.id
    for structure in (Structure(), second, first):  # none of which any record comes with but the last
        writer.write_structure(structure)
    writer.write([StepRecord(0, 0.0), StepRecord(0, 0.0, micro_step=1)])
    writer.write_structure(first)
    writer.write_structure(third)
    writer.write_structure(second)
    writer.write([StepRecord(1, 0.0)])
    writer.preview(StepRecord(2, 0.0))
    writer.write_structure(third)
    found = (FormerStructure(0, 1, first), FormerStructure(1, 0, second))
    assert (store.former_structures(run), store.structure(run)) == (found, third)
    writer.close()
    again = store.begin_run("former", run_id=run)
    again.write_structure(first)
    again.close()
    assert store.former_structures(run) == (*found, FormerStructure(2, 0, third))
    store.delete_run(run)


def test_of_a_structure_that_always_changes_the_first_hundred_are_kept(store: Store) -> None:
    writer = store.begin_run("restless")
    run = writer.run.id
    for step in range(103):
        writer.write_structure(Structure(subjects=(f"{step}",)))
        writer.write([StepRecord(step, 0.0)])
    writer.close()
    assert [one.step for one in store.former_structures(run)] == list(range(100))
    store.delete_run(run)


def test_layouts_are_those_of_the_streams_in_order_of_appearance(store: Store) -> None:
    run, _ = write_all(store, walk(2, *LAYOUTS))
    assert store.layouts(run) == LAYOUTS


def test_a_run_is_found_by_id_prefix_name_and_latest(store: Store) -> None:
    names = ("resnet", "gpt", "gpt")
    ids = []
    for at, name in enumerate(names):
        writer = store.begin_run(name, run_id=f"{'ab'[at > 0]}{at}-{name}-{id(store) % 100000}")
        ids.append(writer.run.id)
        writer.close()
    assert store.find_run(ids[0]).name == "resnet"
    assert store.find_run("gpt").id == ids[2]
    assert store.find_run("a0-").id == ids[0]
    assert store.find_run("latest").id == ids[2]
    with pytest.raises(RunNotFound, match="2 runs begin with 'b'"):
        store.find_run("b")
    with pytest.raises(RunNotFound, match="did you mean 'resnet'"):
        store.find_run("resnot")
    with pytest.raises(RunNotFound):
        store.series("resnot", "", "scalar/loss")
    assert [one.id for one in store.runs(limit=2)] == [ids[2], ids[1]]
    for run in ids:
        store.delete_run(run)


def test_people_rename_tag_and_remark(store: Store) -> None:
    run, _ = write_all(store, walk(2, layout(2)), tags={"seed": 1})
    before = store.version(run)
    assert store.annotate(run, remark="good one").remark == "good one"
    seen = store.annotate(run, name="best", tags={"keep": True})
    assert (seen.name, dict(seen.tags), seen.remark) == ("best", {"keep": True}, "good one")
    assert store.version(run) != before
    assert store.find_run("best").id == run


def test_the_version_changes_with_every_write_and_with_nothing_else(store: Store) -> None:
    writer = store.begin_run("version")
    run = writer.run.id
    seen = [store.version(run)]
    assert store.version(run) == seen[0]
    writer.write(walk(1, layout(2)))
    seen.append(store.version(run))
    writer.write((), [finding()])
    seen.append(store.version(run))
    writer.close()
    seen.append(store.version(run))
    assert len(set(seen)) == 4


def test_ranks_share_a_run_and_have_one_writer_each(store: Store) -> None:
    first = store.begin_run("ranks")
    run = first.run.id
    second = store.begin_run("ranks", run_id=run, rank=1)
    with pytest.raises(StoreUnavailable, match="is being written"):
        store.begin_run("ranks", run_id=run, rank=1)
    first.write(walk(3, layout(2)), [finding(4)])
    second.write(walk(5, layout(2), seed=1), [finding(2, rank=1)])
    seen = store.find_run(run)
    assert (seen.ranks, seen.last_step, seen.findings, seen.state) == ((0, 1), 4, 2, "running")
    assert [one.rank for one in store.findings(run)] == [1, 0]
    assert store.series(run, "layer.0", "activation/mean", rank=1).total >= 4
    with pytest.raises(RunNotFound, match="has no rank 2; it has 0, 1"):
        store.matrix(run, "activation/mean", rank=2)
    with pytest.raises(StoreUnavailable, match="being written"):
        store.delete_run(run)
    first.close()
    second.close("failed", "rank 1 died")
    assert (store.find_run(run).state, store.find_run(run).error) == ("failed", "rank 1 died")
    store.delete_run(run)
    with pytest.raises(RunNotFound):
        store.find_run(run)


def test_without_a_rank_the_first_that_the_run_has_is_read(store: Store) -> None:
    for rank in (3, 2):  # in the order in which they happened to begin
        writer = store.begin_run("late", run_id="late", rank=rank)
        writer.write_structure(Structure(subjects=(f"of rank {rank}",)))
        writer.write_events([Event("note", rank)])
        writer.write(walk(6, layout(2), seed=rank))
    assert store.find_run("late").first_rank == 2
    assert store.structure("late").subjects == ("of rank 2",)
    assert [event.step for event in store.events("late", kind="note")] == [2]
    assert store.metrics("late") == store.metrics("late", rank=2)
    assert store.layouts("late") == store.layouts("late", rank=2)
    assert store.former_structures("late") == ()
    assert [record.time for record in store.replay("late")] == [record.time for record in store.replay("late", rank=2)]
    series, matrix = store.series("late", "layer.0", "activation/mean"), store.matrix("late", "activation/mean")
    assert (series.rank, matrix.rank) == (2, 2)
    assert series.values.tobytes() == store.series("late", "layer.0", "activation/mean", rank=2).values.tobytes()
    assert store.histograms("late", "layer.0", "activation") == ()
    with pytest.raises(RunNotFound, match="has no rank 0; it has 2, 3"):
        store.series("late", "layer.0", "activation/mean", rank=0)


def test_a_finished_rank_may_be_written_on(store: Store) -> None:
    run, _ = write_all(store, walk(300, layout(3)))
    writer = store.begin_run("walk", run_id=run)
    with pytest.raises(StoreError, match="after step 299"):
        writer.write(walk(1, layout(3), first=299))
    more = walk(300, layout(3), seed=4, first=300)
    writer.write(more)
    writer.close()
    assert [one.step for one in store.replay(run)] == list(range(600))
    assert store.layouts(run) == (layout(3),)


def test_sites_that_come_and_go_make_one_series_and_one_matrix(store: Store) -> None:
    records = walk(100, layout(5)) + walk(100, layout(9), first=100, seed=2)
    run, reference = write_all(store, records)
    for one in (store, reference):
        assert one.series(run, "layer.4", "activation/max").total > 150
        assert one.matrix(run, "activation/max").sites == layout(9).sites
    np.testing.assert_array_equal(store.matrix(run, "activation/max").low, reference.matrix(run, "activation/max").low)


def beside(record, subject: str, **scalars: float):
    """What another subject showed at the record's step."""
    blocks = tuple(Block(replace(one.layout, subject=subject), one.values + 1.0, one.present) for one in record.blocks)
    return replace(record, blocks=blocks, scalars=scalars, events=(), histograms=())


def test_what_joins_earlier_records_stands_at_its_own_steps_in_the_same_series(store: Store) -> None:
    records = walk(600, layout(5))
    scheduled = [beside(one, "weight", rate=0.5) for one in records[::100]]
    joining = [beside(one, "weight", rate=0.25) for one in records[421:430]]
    with open_store("memory:") as reference:
        run = ""
        for one in (store, reference):
            writer = one.begin_run("joined", run_id=run or None)
            run = writer.run.id
            both = {two.step: two for two in scheduled}
            for record in records:
                more = both.get(record.step)
                writer.write([joined(record, more)], (), joining if record.step == records[500].step else ())
                while writer.maintain():
                    pass
            writer.close()
        for mine, theirs in zip(reference.replay(run), store.replay(run), strict=True):
            assert_same(mine, theirs)
        for site, metric in (("layer.3", "weight/max"), ("", "scalar/rate")):
            expected = reference.series(run, site, metric)
            found = store.series(run, site, metric)
            assert found.total == len(scheduled) + len(joining)
            np.testing.assert_array_equal(found.steps, expected.steps)
            np.testing.assert_array_equal(found.values, expected.values)
        assert store.layouts(run) == reference.layouts(run)
        assert store.metrics(run) == reference.metrics(run)


def test_what_joins_records_comes_in_order_and_never_before_its_record(store: Store) -> None:
    records = walk(10, layout(5))
    writer = store.begin_run("order")
    writer.write(records[:5])
    with pytest.raises(StoreError, match="write the record first"):
        writer.write((), (), [beside(records[5], "weight")])
    writer.write(records[5:], (), [beside(one, "weight") for one in records[3:8]])
    with pytest.raises(StoreError, match="expects a record after"):
        writer.write((), (), [beside(records[7], "weight")])
    writer.close()
    assert store.series(writer.run.id, "layer.1", "weight/mean").total == 5


def test_a_record_that_is_not_final_is_there_until_records_come(store: Store) -> None:
    records = walk(12, *LAYOUTS)
    writer = store.begin_run("shown")
    run = writer.run.id
    writer.write(records[:10])
    version = store.version(run)
    writer.preview(replace(records[10], scalars={"early": 1.0}))
    assert store.version(run) != version
    assert store.find_run(run).last_step == records[10].step
    assert_same(replace(records[10], scalars={"early": 1.0}), list(store.replay(run))[-1])
    writer.preview(records[10])
    writer.write((), [finding(3)])
    assert_same(records[10], list(store.replay(run))[-1])
    late = replace(records[10], scalars={**records[10].scalars, "late": 2.0}, histograms=(), events=(Event("late", 1),))
    writer.write([late, records[11]])
    writer.close()
    for written, read in zip([*records[:10], late, records[11]], store.replay(run), strict=True):
        assert_same(written, read)
    assert store.series(run, "", "scalar/late").values.tolist() == [2.0]
    assert store.series(run, "", "scalar/early").total == 0
    assert [one.kind for one in store.events(run, kind="late")] == ["late"]


def test_a_record_that_is_not_final_stays_where_nothing_comes_behind_it(store: Store) -> None:
    records = walk(300, layout(5))
    writer = store.begin_run("left")
    writer.write(records[:298])
    writer.preview(records[298])
    while writer.maintain():
        pass
    writer.close()
    writer = store.begin_run("left", run_id=writer.run.id)
    with pytest.raises(StoreError, match="expects a record after step"):
        writer.preview(records[298])
    writer.write([records[299]])
    writer.close()
    for written, read in zip(records, store.replay(writer.run.id), strict=True):
        assert_same(written, read)


def test_housekeeping_between_leaves_what_is_not_final_alone(store: Store) -> None:
    records = walk(520, layout(5))
    writer = store.begin_run("kept")
    for at in range(0, 512, 64):
        writer.write(records[at : at + 64])
        writer.preview(records[at + 64])
        while writer.maintain():
            pass
        assert [one.step for one in store.replay(writer.run.id)] == list(range(at + 65))
    writer.write(records[512:])
    writer.close()
    for written, read in zip(records, store.replay(writer.run.id), strict=True):
        assert_same(written, read)


def image_event(step: int, value: int) -> Event:
    attachment = Attachment(np.full((2, 3, 1), value, np.uint8))
    return Event("media", step, data={"digest": attachment.digest()}, attachment=attachment)


def test_events_beside_a_record_that_is_not_final_stay_when_it_is_replaced(store):
    writer = store.begin_run("beside")
    run, before, beside, behind = writer.run.id, image_event(1, 1), image_event(1, 2), image_event(3, 3)
    writer.write([StepRecord(0, 1.0)])
    writer.write_events([before, behind])
    for kind in ("shown", "shown again"):
        writer.preview(StepRecord(1, 1.0, events=(Event(kind, 1),)))
        writer.write_events([beside] if kind == "shown" else [])
    writer.preview(StepRecord(2, 1.0))
    writer.preview(StepRecord(1, 1.0, events=(Event("shown", 1),)))
    writer.write([StepRecord(1, 1.0, events=(Event("final", 1),)), StepRecord(2, 1.0)])
    writer.preview(StepRecord(3, 1.0))
    writer.write([StepRecord(4, 1.0)])
    writer.close()
    found = sorted(event.data["digest"] for event in store.events(run, kind="media"))
    assert found == sorted(event.data["digest"] for event in (before, beside, behind))
    assert [event.kind for event in store.events(run) if event.kind != "media"] == ["final"]
    for event in (before, beside, behind):
        assert store.attachment(run, event.data["digest"]) == event.attachment.file()
    assert store.verify(run) == ()
    store.delete_run(run)


def test_the_files_of_events_come_back_byte_for_byte_and_go_with_a_record_that_was_not_final(store):
    writer = store.begin_run("x")
    run, first, shown, last = writer.run.id, image_event(0, 1), image_event(1, 2), image_event(0, 3)
    many = tuple(image_event(0, value) for value in range(10, 30))
    writer.write([StepRecord(0, 1.0, events=(first, *many))])
    writer.preview(StepRecord(1, 1.0, events=(shown,)))
    assert store.attachment(run, shown.data["digest"]) == shown.attachment.file()
    writer.write_events([last])
    writer.write([StepRecord(2, 1.0)])
    writer.close()
    assert [event.data for event in store.events(run)] == [event.data for event in (first, *many, last)]
    for event in (first, *many, last):
        assert store.attachment(run, event.data["digest"]) == event.attachment.file()
    for unknown in (shown.data["digest"], "", "../../etc/passwd"):
        with pytest.raises(StoreUnavailable, match="has no image or sound"):
            store.attachment(run, unknown)
    assert store.verify(run) == ()
    store.delete_run(run)
    with pytest.raises(RunNotFound):
        store.attachment(run, first.data["digest"])
