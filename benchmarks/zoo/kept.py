"""Results of runs, kept by the hash of everything that they depend on, so that only what changed runs again."""

import hashlib
import json
import platform
from collections.abc import Callable, Iterable
from dataclasses import asdict
from math import nan
from pathlib import Path
from threading import Lock
from typing import Final

import mindscope
import torch

from .trial import Cost, Watched, run_logged, run_plain, run_watched

#: The monitor that programs will find, which PYTHONPATH may have chosen.
_ROOT = Path(mindscope.__file__).parent
_WATCHING = ("cli", "insight", "probe", "storage", "watching.py")
#: Written from what is kept here; `Watched.as_earned` sorts kept alarms anew.
_WRITTEN = "zoo_record.py"
#: What mutants give without the monitor, which no change of the monitor changes: kept with the sources, since three
#: runs of each of 250 mutants take hours. `[result, exit code, whether what is planted was run]` by the result's key.
MUTANT_RESULTS: Final = Path(__file__).with_name("mutant_results.json")
#: Seconds after which a mutant counts as hung, where its program as it is takes a minute at most.
_HUNG_S: Final = 240.0


class Runner:
    """Runs programs, or reads what they gave the last time.

    Args:
        cache: Folder of the results.
        shared: File of what mutants gave without the monitor, from any machine.
        has_additions: Add to this file what is found now.
    """

    def __init__(self, cache: Path, *, shared: Path = MUTANT_RESULTS, has_additions: bool = False) -> None:
        self._shared, self._has_additions = shared, has_additions
        self._mutants: dict[str, tuple[str, int, bool]] = _read(shared)
        self._lock = Lock()
        self._results = cache / "results"
        self._results.mkdir(parents=True, exist_ok=True)
        self._monitor = _hash_of(path for name in _WATCHING for path in _files(_ROOT / name))

    def plain(self, python: Path, script: Path, seed: int) -> Cost:
        """Return what a program gives without the monitor; of a mutant that ran elsewhere alone, its cost is NaN."""
        kept = self._place("plain", python, script, seed)
        is_mutant = _is_mutant(script)
        if kept.exists():
            cost = Cost(**json.loads(kept.read_text(encoding="utf-8")))
        elif is_mutant and kept.stem in self._mutants:
            return _shared_cost(script.parent, *self._mutants[kept.stem])
        else:
            cost = run_plain(python, script, seed, **_limit(script))
            _write(kept, json.dumps(asdict(cost)))
        if is_mutant and self._has_additions:
            self._share(kept.stem, (cost.result, cost.exit_code, (script.parent / "reached").exists()))
        return cost

    def watched(self, python: Path, script: Path, seed: int) -> Watched:
        """Return what a program gives under `mindscope run`, and what is said of it."""
        kept = self._place(f"watched {self._monitor}", python, script, seed)
        if kept.exists():
            return Watched.from_json(kept.read_text(encoding="utf-8")).as_earned()
        watched = run_watched(python, script, seed, **_limit(script))
        _write(kept, watched.to_json())
        return watched

    def against(self, python: Path, script: Path, seed: int, good: tuple[Path, int]) -> Watched:
        """Return what is said of a watched program if a good run, of this script and seed, is its reference."""
        kind = f"against {self._monitor} {_hash_of([good[0]])} {good[1]}"
        kept = self._place(kind, python, script, seed)
        if not kept.exists():
            _write(kept, run_watched(python, script, seed, good=good, **_limit(script)).to_json())
        return Watched.from_json(kept.read_text(encoding="utf-8")).as_earned()

    def logged(self, python: Path, script: Path, seed: int) -> Watched:
        """Return what is said of a program that calls `ms.watch` itself."""
        kind = f"logged {self._monitor}"
        text = self.kept(
            kind, python, script, seed, lambda: run_logged(python, script, seed, **_limit(script)).to_json()
        )
        return Watched.from_json(text).as_earned()

    def kept(self, kind: str, python: Path, script: Path, seed: int, run: Callable[[], str]) -> str:
        """Return the text that another way to run a program gives."""
        place = self._place(kind, python, script, seed)
        if not place.exists():
            _write(place, run())
        return place.read_text(encoding="utf-8")

    def _share(self, key: str, found: tuple[str, int, bool]) -> None:
        with self._lock:
            self._mutants[key] = found
            rows = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(self._mutants.items()))
            _write(self._shared, "{\n" + ",\n".join(rows) + "\n}\n")

    def _place(self, kind: str, python: Path, script: Path, seed: int) -> Path:
        beside = sorted(path for path in script.parent.glob("*") if path.suffix in (".py", ".txt"))
        program = _hash_of(beside if _is_mutant(script) else [script])
        depends = f"{kind} {python.parents[1].name} {program} {seed} {torch.__version__} {platform.python_version()}"
        return self._results / f"{hashlib.sha256(depends.encode()).hexdigest()[:32]}.json"


def _is_mutant(script: Path) -> bool:
    return (script.parent / "mutant").exists()


def _limit(script: Path) -> dict[str, float]:
    return {"limit_s": _HUNG_S} if _is_mutant(script) else {}


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(path for path in place.rglob("*.py") if path.name != _WRITTEN)


def _read(shared: Path) -> dict[str, tuple[str, int, bool]]:
    return json.loads(shared.read_text(encoding="utf-8")) if shared.exists() else {}


def _shared_cost(folder: Path, result: str, exit_code: int, was_reached: bool) -> Cost:
    if was_reached:
        (folder / "reached").touch()
    return Cost(nan, nan, nan, result, exit_code, "")


def _hash_of(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all: two runs of the zoo may share the folder."""
    draft = path.with_suffix(".draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
