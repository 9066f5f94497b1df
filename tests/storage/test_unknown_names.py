"""People who misspell a name are told so; our own code may ask for what is not there."""

import warnings

import pytest
from mindscope.storage import MemoryStore, RunNotFound, StepRecord, open_store

from tests.storage.samples import layout, walk


def filled(store):
    writer = store.begin_run("digits")
    writer.write([*walk(3, layout(3)), StepRecord(3, 3.0, scalars={"loss": 1.0})])
    writer.close()
    return writer.run.id


@pytest.fixture(params=["memory", "folder"])
def store(request, tmp_path):
    with MemoryStore() if request.param == "memory" else open_store(tmp_path / "runs") as opened:
        yield opened


@pytest.mark.parametrize(
    ("site", "metric", "words"),
    [
        ("layer.1", "activation/mena", "no metric 'activation/mena'; did you mean 'activation/mean'?"),
        ("", "scalar/los", "no metric 'scalar/los'; did you mean 'scalar/loss'?"),
        ("layr.1", "activation/mean", "no site 'layr.1'; did you mean 'layer.1'?"),
    ],
)
def test_a_misspelt_name_is_told_with_the_nearest_one(store, site, metric, words):
    run = filled(store)
    with pytest.warns(UserWarning, match="has no") as told:
        assert not len(store.series(run, site, metric).values)
    assert words in str(told[0].message)
    assert told[0].filename == __file__


def test_what_is_only_not_recorded_is_no_misspelt_name(store):
    run = filled(store)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for site, metric in (("layer.1", "gradient/mean"), ("", "scalar/accuracy"), ("", "activation/mean")):
            assert not len(store.series(run, site, metric).values)


def test_a_range_without_a_point_is_no_misspelt_name(store):
    run = filled(store)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not len(store.series(run, "layer.1", "activation/mean", first=100).values)


def test_our_own_code_may_ask_for_what_is_not_there(store):
    run = filled(store)
    module = {"__name__": "mindscope.insight.rules"}
    exec("def ask(store, run): return store.series(run, '', 'scalar/los')", module)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not len(module["ask"](store, run).values)


def test_a_folder_that_is_not_there_is_told_with_the_nearest_one(tmp_path):
    filled(open_store(tmp_path / "runs"))
    with pytest.warns(UserWarning, match=r"there is no folder .*rnus, so the store is empty; did you mean 'runs'\?"):
        assert open_store(tmp_path / "rnus").runs() == ()
    with pytest.raises(RunNotFound, match=r"no run 'latest': there is no folder .*; did you mean 'runs'\?"):
        open_store(tmp_path / "rnus").find_run("latest")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_store(tmp_path / "to come").runs() == ()
        (tmp_path / "empty").mkdir()
        assert open_store(tmp_path / "empty").runs() == ()
