"""Many runs are diagnosed alike by one process, by several, and by a cluster."""

from pathlib import Path

import pytest
from mindscope.insight import diagnose, render_json
from mindscope.insight.many_runs import RunDiagnosis, WrongWorkers, diagnose_runs
from mindscope.storage import StepRecord, StoreUnavailable, open_store


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, ...]:
    """Ids of three runs in `tmp_path`, of which the second has a loss that is NaN."""
    found = []
    with open_store(tmp_path) as store:
        for name, last in (("good", 0.5), ("bad", float("nan")), ("other", 0.4)):
            writer = store.begin_run(name)
            losses = [*(2.0 / (step + 1) for step in range(30)), last]
            writer.write([StepRecord(step, float(step), scalars={"loss": loss}) for step, loss in enumerate(losses)])
            writer.close()
            found.append(writer.run.id)
    return tuple(found)


def expected(folder: Path, runs: tuple[str, ...]) -> list[RunDiagnosis]:
    with open_store(folder) as store:
        return [RunDiagnosis(run, render_json(diagnose(store, run))) for run in runs]


def texts(found: list[RunDiagnosis]) -> list[str]:
    """What can be compared: how sure a finding is differs, since the tests leave out what was measured of its rule."""
    return [repr((one.run, one.document and _without_confidence(one.document), one.error)) for one in found]


def _without_confidence(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_confidence(inner) for name, inner in value.items() if "confidence" not in name}
    return [_without_confidence(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("workers", ["1", "2"])
def test_processes_find_what_one_finds(tmp_path: Path, runs: tuple[str, ...], workers: str) -> None:
    assert texts(list(diagnose_runs(str(tmp_path), runs, workers))) == texts(expected(tmp_path, runs))


def test_a_dask_cluster_finds_what_one_process_finds(tmp_path: Path, runs: tuple[str, ...]) -> None:
    distributed = pytest.importorskip("distributed")
    options = {"processes": False, "protocol": "tcp", "host": "127.0.0.1", "dashboard_address": None}
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, **options) as local:
        found = list(diagnose_runs(str(tmp_path), runs, local.scheduler_address.replace("tcp://", "dask://")))
    assert texts(found) == texts(expected(tmp_path, runs))


def test_a_run_that_cannot_be_read_stops_no_other(tmp_path: Path, runs: tuple[str, ...]) -> None:
    (tmp_path / f"{runs[0]}.rank0.db").write_bytes(b"no database" * 1000)
    first, second, _ = diagnose_runs(str(tmp_path), runs)
    assert first.document is None
    assert "cannot be read" in first.error
    assert second.document is not None
    assert second.document["verdict"] == "unhealthy"


@pytest.mark.parametrize("workers", ["0", "x", "", "slurm://host"])
def test_workers_that_are_none_are_told(tmp_path: Path, workers: str) -> None:
    with pytest.raises(WrongWorkers, match="must be a number"):
        list(diagnose_runs(str(tmp_path), (), workers))


def test_a_library_that_is_missing_is_named(tmp_path: Path) -> None:
    try:
        import ray  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(StoreUnavailable, match="need ray, which is not installed"):
            list(diagnose_runs(str(tmp_path), (), "ray://host:10001"))
    else:
        pytest.skip("ray is installed here")
