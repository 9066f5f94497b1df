"""Diagnoses many stored runs over the cores of this machine, or the machines of a cluster."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final

from ..storage import Json, StoreError, StoreUnavailable, open_store
from .diagnosis import diagnose
from .diagnosis_report import render_json

#: What stands before the address of a cluster, and the library that reaches it.
_CLUSTERS: Final = {"dask": "mindscope[cluster]", "ray": "ray[default]"}


class WrongWorkers(ValueError):
    """What was given as workers is neither a number nor the address of a cluster."""


@dataclass(frozen=True, slots=True)
class RunDiagnosis:
    """The diagnosis of one of many runs.

    Args:
        document: As `diagnose --json` prints it; None where the run could not be read.
        error: Why it could not.
    """

    run: str
    document: dict[str, Json] | None
    error: str = ""


def diagnose_runs(url: str, runs: Sequence[str], workers: str = "1", *, write: bool = False) -> Iterator[RunDiagnosis]:
    """Yield the diagnosis of each run, in the given order, as they become ready.

    Args:
        url: The store; every worker opens it by this URL.
        runs: Their ids.
        workers: How many processes, -1 for one a core; or `dask://host:8786`, `ray://host:10001`, a cluster.
        write: Whether the findings are written into the store.

    Raises:
        WrongWorkers: `workers` is none of these.
        StoreUnavailable: The library for it is not installed.
    """
    call = partial(_diagnosed, url, write=write)
    scheme, mark, place = workers.partition("://")
    if mark and scheme in _CLUSTERS:
        yield from _on_cluster(call, runs, scheme, place)
    elif not workers.lstrip("-").isdecimal() or int(workers) == 0:
        raise WrongWorkers(f"workers must be a number, -1, dask://host:8786 or ray://host:10001, got {workers!r}")
    elif int(workers) == 1:
        yield from map(call, runs)
    else:
        yield from _parallel(call, runs, int(workers))


def _on_cluster(call: "partial[RunDiagnosis]", runs: Sequence[str], scheme: str, place: str) -> Iterator[RunDiagnosis]:
    joblib = _library("joblib", _CLUSTERS["dask"])
    with ExitStack() as stack:
        if scheme == "dask":
            distributed = _library("distributed", _CLUSTERS["dask"])
            stack.enter_context(distributed.Client(f"tcp://{place}" if place else None, set_as_default=True))
        else:
            ray = _library("ray", _CLUSTERS["ray"])
            ray.init(address=f"ray://{place}" if place else None, ignore_reinit_error=True)
            import_module("ray.util.joblib").register_ray()
        stack.enter_context(joblib.parallel_config(backend=scheme))
        yield from _parallel(call, runs, -1)


def _parallel(call: "partial[RunDiagnosis]", runs: Sequence[str], jobs: int) -> Iterator[RunDiagnosis]:
    joblib = _library("joblib", _CLUSTERS["dask"])
    found: Iterator[RunDiagnosis] = joblib.Parallel(n_jobs=jobs, return_as="generator")(
        joblib.delayed(call)(run) for run in runs
    )
    yield from found


def _library(name: str, package: str) -> Any:  # Any: a module without types
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            f"several workers need {name}, which is not installed: pip install '{package}'"
        ) from error


def _diagnosed(url: str, run: str, *, write: bool) -> RunDiagnosis:
    """Return the diagnosis of one run; called in a worker."""
    try:
        with open_store(url, on_damage="log") as store:
            return RunDiagnosis(run, render_json(diagnose(store, run, write=write, on_damage="log")))
    except StoreError as error:
        return RunDiagnosis(run, None, f"{type(error).__name__}: {error}")
