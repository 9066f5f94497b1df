"""`mindscope doctor` checks the machine (versions, BLAS, cores, the store), or the first steps of a script."""

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from .cost_check import compare_cost
from .failures import WrongUse
from .output import add_row, console, print_json, table
from .rehearsal import STEPS, examine
from .script_commands import existing_script
from .store_options import DEFAULT_STORE, JsonOption, is_path

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
    steps: Annotated[int, typer.Option("--steps", min=1, help="The most steps of the script to run.")] = STEPS,
    causal: Annotated[
        bool, typer.Option("--causal", help="The model must not see later positions; a leak is an error.")
    ] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="Run the whole script without and with the monitor, and compare.")
    ] = False,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="How often --cost runs both.")] = 1,
) -> int:
    """Check this machine and the store; or run the first steps of a script and report what is wrong.

    Exit code 3 if the store cannot be used, 1 if something is wrong with the script or --cost finds it expensive.
    """
    if words and (words[0].endswith(".py") or words[0] == "-m"):
        script, arguments = existing_script(words)
        if cost:
            return compare_cost(script, arguments, repeats=repeats, as_document=as_document)
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
    from ..storage.errors import without_passwords
    from ..storage.streams.transport import is_stream

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
            known = "it takes records" if is_stream(url) else f"{len(opened.runs())} runs"
            yield Check("store", "ok", f"{without_passwords(url)}: {known}")
    except StoreError as error:
        yield Check("store", "error", str(error), "see the message")


def _nearest_existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.absolute().parents) if folder.exists())
