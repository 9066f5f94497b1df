"""`mindscope doctor` checks the machine (versions, BLAS, cores, the store), or the first steps of a script."""

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .failures import WrongUse
from .output import add_row, console, print_json, table
from .script_commands import existing_script
from .store_options import DEFAULT_STORE, JsonOption, is_path

if TYPE_CHECKING:
    from ..probe.script_runner import TrainingScript

_NEEDED = ("numpy", "numba", "sqlalchemy", "zstandard", "pydantic", "dash", "plotly", "typer")
_EXTRAS = (
    ("torch", "watching PyTorch models", "mindscope[torch]"),
    ("scikit-learn", "the demo's digits", "mindscope[demo]"),
    ("psycopg", "stores on PostgreSQL", "mindscope[postgres]"),
)
#: MindSpore's wheels are compiled against NumPy 1 and install it, which would break this environment.
_MINDSPORE_APART = (
    "not into this environment, as it needs NumPy 1.26: python3.11 -m venv NEW, then in the checkout "
    "NEW/bin/pip install '.[mindspore]' (docs/mindspore.md)"
)
#: Below this much free space a store soon stops recording (our choice: a day of a small run).
_LOW_SPACE_BYTES = 1 << 30
_STYLES = {"ok": "green", "missing": "dim", "warning": "yellow", "error": "red"}


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check, and what to do if it failed."""

    name: str
    state: Literal["ok", "missing", "warning", "error"]
    found: str
    advice: str = ""


_Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[STORE | SCRIPT [ARGS]...]", help="A store; or a script, or -m MODULE, with its arguments."
    ),
]


def doctor(
    words: _Words = None,
    as_document: JsonOption = False,
    steps: Annotated[int, typer.Option("--steps", min=1, help="How many steps of the script to run.")] = 2,
    causal: Annotated[
        bool, typer.Option("--causal", help="The model must not see later positions; a leak is an error.")
    ] = False,
) -> int:
    """Check this machine and the store; or run the first steps of a script and report what is wrong.

    Exit code 3 if the store cannot be used, 1 if something is wrong with the script.
    """
    if words and (words[0].endswith(".py") or words[0] == "-m"):
        script, arguments = existing_script(words)
        return examine(script, arguments, steps=steps, is_causal=causal, as_document=as_document)
    if words and len(words) > 1:
        raise WrongUse(f"doctor expects one store, a script that ends in .py, or -m MODULE, got {' '.join(words)!r}")
    store = words[0] if words else os.environ.get("MINDSCOPE_STORE", DEFAULT_STORE)
    checks = (*_versions(), *_extras(), _blas(), _cores(), _sqlite(), *_store(store))
    if as_document:
        print_json({"store": store, "checks": checks})
    else:
        from rich.text import Text

        listing = table("", "", "what", "found", "what to do")
        for check in checks:
            add_row(listing, Text(check.state, style=_STYLES[check.state]), check.name, check.found, check.advice)
        console().print(listing)
    return 3 if any(check.state == "error" for check in checks if check.name == "store") else 0


def _versions() -> Iterator[Check]:
    from .. import __version__

    yield Check("mindscope", "ok", __version__)
    yield Check(
        "python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}, {sys.executable}"
    )
    for name in _NEEDED:
        version = _version(name)
        yield Check(name, "ok", version) if version else Check(name, "error", "missing", f"pip install {name}")


def _extras() -> Iterator[Check]:
    for name, purpose, extra in _EXTRAS:
        version = _version(name)
        if version:
            yield Check(name, "ok", version)
        else:
            yield Check(name, "missing", f"for {purpose}", f"pip install '{extra}'")
    yield _mindspore(_version("mindspore"), _version("numpy"))


def _mindspore(version: str, numpy: str) -> Check:
    """Check MindSpore and its NumPy; if it is missing, say how to install it in another environment."""
    if not version:
        return Check("mindspore", "missing", "for watching MindSpore models", _MINDSPORE_APART)
    if numpy.startswith("1."):
        return Check("mindspore", "ok", version)
    return Check("mindspore", "warning", f"{version} beside NumPy {numpy}", _MINDSPORE_APART)


def _version(distribution: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _blas() -> Check:
    import numpy as np

    try:
        from threadpoolctl import threadpool_info  # type: ignore[import-untyped]
    except ImportError:
        built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return Check("blas", "ok", f"{built.get('name', 'unknown')} {built.get('version', '')}".strip())
    found = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    if not found:
        return Check(
            "blas", "warning", "none found", "matrix products will be slow; install a numpy wheel with OpenBLAS"
        )
    words = (
        f"{pool['internal_api']} {pool.get('version') or ''} kernel {pool.get('architecture') or 'unknown'}, "
        f"{pool['num_threads']} threads"
        for pool in found
    )
    return Check("blas", "ok", "; ".join(words))


def _cores() -> Check:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found = f"{usable} usable of {os.cpu_count()}"
    if usable < 2:
        return Check("cores", "warning", found, "the writer thread shares the training's core; expect more overhead")
    return Check("cores", "ok", found)


def _sqlite() -> Check:
    return Check("sqlite", "ok", sqlite3.sqlite_version)


def _store(url: str) -> Iterator[Check]:
    from ..storage import StoreError, open_store

    if is_path(url):
        folder = _nearest_existing(Path(url))
        if not os.access(folder, os.W_OK):
            yield Check("store", "error", f"{url}: {folder} cannot be written", "choose another folder with --store")
            return
        free = shutil.disk_usage(folder).free
        low = free < _LOW_SPACE_BYTES
        advice = "free some: recording stops when the disk is nearly full" if low else ""
        yield Check("disk", "warning" if low else "ok", f"{free / 1e9:.1f} GB free at {folder}", advice)
        if not Path(url).exists():
            yield Check("store", "ok", f"{url} does not exist yet and can be created")
            return
    try:
        with open_store(url) as opened:
            yield Check("store", "ok", f"{url}: {len(opened.runs())} runs")
    except StoreError as error:
        yield Check("store", "error", str(error), "see the message")


def _nearest_existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.absolute().parents) if folder.exists())


#: Events of every run that are no sign of a problem.
_QUIET = frozenset({"initial_weight"})
#: Events that hold checksums alone: to compare runs with, not to read.
_FINGERPRINTS = frozenset({"initial_checksum", "random_state", "resume_point"})
#: Most entries of a list or mapping that are shown.
_SHOWN = 4


def examine(
    script: "TrainingScript", arguments: Sequence[str], *, steps: int, is_causal: bool, as_document: bool
) -> int:
    """Run the first steps of a script and report; return exit code 1 if a finding is worse than a notice.

    Args:
        steps: How many steps the script may make.
        is_causal: Whether the model must be causal, so that a leak is a finding.
    """
    from ..insight import LiveDiagnosis, render_json, render_text
    from ..probe import begin, load_config
    from ..probe.script_runner import Stopped, run_to_end
    from ..probe.watch_session import rehearsal
    from ..storage import open_store

    store, diagnosis = open_store("memory:"), LiveDiagnosis()
    config = load_config(None, causality=True if is_causal else "report")
    monitors: list[Any] = []

    def watch(adapter: Any) -> Any:  # Any: an adapter of any framework
        monitor = begin(adapter, store, config, name=script.path.stem, listeners=(diagnosis,))
        monitors.append(monitor)

        def stop(*_: object) -> None:
            if monitor.step >= steps:
                raise Stopped(0)

        adapter.modules()[""].register_forward_pre_hook(stop)
        return monitor

    with redirect_stdout(sys.stderr), rehearsal():  # the output of the script must not mix with ours
        code, reason, _ = run_to_end(script, arguments, watch)
    if reason:
        raise WrongUse(reason)
    run = monitors[0].run.id
    found = diagnosis.diagnosis()
    facts = [fact for record in store.replay(run) for fact in map(_fact, record.events) if fact["kind"] not in _QUIET]
    if as_document:
        structure = store.structure(run)
        print_json(
            {
                "script": str(script),
                "exit_code": code,
                "steps": monitors[0].step,
                "parameters": len(structure.parameters),
                "facts": facts,
                "diagnosis": render_json(found),
            }
        )
    else:
        print(f"{script}: {monitors[0].step} steps were run, exit code {code}\n")
        quiet = len(found.reasons)  # after so few steps that is most rules
        print(render_text(replace(found, run=str(script), state="finished", reasons={})))
        if quiet:
            print(f"\n{quiet} rules need more than {monitors[0].step} steps; --steps N runs N of them")
        if facts:
            print("\nfacts:")
        for line in _lines(facts):
            print(line)
    return int(any(finding.severity != "info" for finding in found.findings))


def _fact(event: Any) -> dict[str, Any]:  # Any: an event of storage, which is imported late
    return {"kind": event.kind, "step": event.step, "site": event.site, **event.data}


def _lines(facts: Sequence[dict[str, Any]]) -> Iterator[str]:
    for fact in facts:
        if fact["kind"] in _FINGERPRINTS:
            continue
        words = (f"{name} {_short(value)}" for name, value in fact.items() if name not in ("kind", "step", "site"))
        site = f" {fact['site']}" if fact["site"] else ""
        yield f"  step {fact['step']}  {fact['kind'].replace('_', ' ')}{site}: {', '.join(words)}"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return f"of {len(value)}" if len(value) > _SHOWN else "(" + _joined(value) + ")"
    if isinstance(value, list):
        rest = f" and {len(value) - _SHOWN} more" if len(value) > _SHOWN else ""
        return "[" + ", ".join(map(_short, value[:_SHOWN])) + rest + "]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _joined(value: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_short(inner)}" for name, inner in value.items())
