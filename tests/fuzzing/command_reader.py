"""Fuzzes the command line: options and arguments of every command, with odd values, on a store with one run."""

import contextlib
import io
import json
import os
import random
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import typer
from mindscope.cli import main
from mindscope.cli.application import application
from mindscope.cli.failures import describe
from mindscope.storage import open_store

from tests.fuzzing.fuzz import Reader
from tests.fuzzing.mutations import WORDS
from tests.fuzzing.recorded_store import record_run

#: Commands that train, serve, wait or run code of the user: their arguments are parsed, and they are not started.
_PARSED_ONLY: Final = {
    *(("demo",), ("run",), ("dashboard",), ("sites",), ("attach",), ("doctor",), ("explain",), ("landscape",)),
    ("replay",),
}
_WORDS: Final = (
    *("latest", "trained", "STORE", "20", "0", "-1", "1", "10**9", "error", "warning", "tensorboard", "csv", "json"),
    *("gradient/l2_norm", "net.0", "scalar/loss", "loss < 0.5", "every=10", "subjects.weight=5", "FOLDER", "nan"),
    *(
        "postgresql+psycopg://u:secret@[",
        "http://[",
        "x://y",
        "memory:",
        "/dev/null",
        "/proc/self/mem",
        "x.db",
        "~",
        "~x",
    ),
    *(word.replace("\0", "") for word in WORDS),
)


#: The most characters on stderr; `config check` has a line for each mistake.
_LONGEST: Final = 5000


class WrongExit(Exception):
    """The command ended with a code, or said something, that no user should meet."""


@cache
def _commands() -> dict[tuple[str, ...], list[tuple[str, bool]]]:
    """Return the options of every command, each with whether it takes a value."""
    found: dict[tuple[str, ...], list[tuple[str, bool]]] = {}

    def visit(path: tuple[str, ...], command: Any) -> None:  # Any: a command of click or of typer's own copy
        for name, inner in getattr(command, "commands", {}).items():
            visit((*path, name), inner)
        if not hasattr(command, "commands"):
            options = [p for p in command.params if p.param_type_name == "option"]
            found[path] = [(p.opts[0], not p.is_flag) for p in options]

    visit((), typer.main.get_command(application))
    return found


def _valid(_folder: Path) -> list[bytes]:
    lines = [
        *(["runs", "STORE"], ["show", "latest", "--store", "STORE"], ["diagnose", "latest", "--store", "STORE"]),
        ["lineage", "STORE", "--where", "loss < 0.5"],
        ["events", "latest", "--store", "STORE", "--kind", "step_skipped", "--limit", "3"],
        ["graph", "latest", "--store", "STORE", "--step", "3", "--metric", "activation/mean"],
    ]
    return [json.dumps(line).encode() for line in lines]


def _drawn(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a command with odd arguments, or a valid one with a word exchanged."""
    if draw.random() < 0.3:
        words = json.loads(draw.choice(seeds))
        words[draw.randrange(len(words))] = draw.choice(_WORDS)
        return json.dumps(words).encode()
    path = draw.choice(list(_commands()))
    words = [*path, *(draw.choice(_WORDS) for _ in range(draw.choice((0, 1, 1, 2))))]
    for option, has_value in draw.sample(_commands()[path], min(len(_commands()[path]), draw.randrange(4))):
        words += [option, draw.choice(_WORDS)] if has_value else [option]
    if "--store" not in words and draw.random() < 0.7:
        words += ["--store", "STORE"]
    return json.dumps(words).encode()


@cache
def _recorded(folder: Path) -> None:
    with open_store(folder) as store:
        record_run(store, steps=10)


def _read(data: bytes, folder: Path) -> None:
    store = folder.parent / "valid" / "runs"
    _recorded(store)
    places = {"STORE": str(store), "FOLDER": str(folder / "out")}
    words = [places.get(word, word) for word in json.loads(data)]
    out, err = io.StringIO(), io.StringIO()
    before = Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _parsed(words) if _is_parsed_only(words) else main(words)
    finally:
        os.chdir(before)
    said = err.getvalue()
    if code not in (0, 1, 2, 3) or "Traceback" in said:
        raise WrongExit(f"exit code {code}: {said[-300:]}")
    if len(said) > _LONGEST:
        raise WrongExit(f"exit code {code} with {len(said)} characters on stderr: {said[:200]}")


def _is_parsed_only(words: Sequence[str]) -> bool:
    return tuple(words[:1]) in _PARSED_ONLY or words[:1] == ["armour"] or "--watch" in words


def _parsed(words: Sequence[str]) -> int:
    """Parse the words as the command would, without starting it, and return the exit code."""
    command: Any = typer.main.get_command(application)  # Any: of click, or of typer's own copy
    left = [*words]
    try:
        while left and left[0] in getattr(command, "commands", {}):
            command = command.commands[left.pop(0)]
        with command.make_context("mindscope", left):
            return 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except Exception as error:  # noqa: BLE001  (the command line describes all of them)
        if type(error).__name__ == "Exit":
            return 0
        code, message = describe(error)
        sys.stderr.write(f"{message}\n")
        return code


COMMAND = Reader("command", _valid, _read, mutate=_drawn)
