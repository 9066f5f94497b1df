"""Damage the files of runs at random, read everything back, and count what differs without a word.

Three stores are written once: a run that was closed, one that was killed with its newest records in the log, and one
with whole tensors. A trial copies one of them, damages one file (a bit or some bytes changed, a stretch zeroed, the end
cut off, the log or a tensor removed), and compares all that the store's functions return with what was written.
"""

import json
import logging
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from mindscope.storage import (
    Block,
    Event,
    Finding,
    Histogram,
    Layout,
    ModuleInfo,
    Outcome,
    StepRecord,
    Store,
    StoreError,
    Structure,
    blobs_of,
    open_store,
)
from mindscope.storage.plain_text import printable

from ..rows import at_most

TRIALS: Final = 1000
RUN: Final = "run"
_STATISTICS: Final = ("l2_norm", "mean", "zeros", "size")
_DTYPES: Final = ("float32", "float32", "uint64", "uint64")
_TENSORS: Final = 12
#: The outcomes of a trial.
INTACT, TOLD, WRONG, CRASHED = "read intact", "told", "silently wrong or missing", "another error"


@dataclass(frozen=True, slots=True)
class Trial:
    """What one damage did.

    Args:
        damage: What was done to which file.
        outcome: One of the four outcomes.
        words: The first message, or what differed.
        intact: The share of reads that were as written.
    """

    damage: str
    outcome: str
    words: str
    intact: float


def write_samples(folder: Path, *, records: int = 700) -> list[Path]:
    """Write the three stores into folders of their own; return these."""
    closed, killed, tensors = folder / "closed", folder / "killed", folder / "tensors"
    _write(closed, records).close()
    writer = _write(folder / "writing", records)
    killed.mkdir()
    for file in (folder / "writing").iterdir():  # what a kill leaves: the log is not written back
        shutil.copy(file, killed / file.name)
    writer.close()
    _write(tensors, 20).close()
    for seed in range(_TENSORS):
        blobs_of(str(tensors), RUN).put(np.random.default_rng(seed).normal(size=(32, 8)).astype(np.float32))
    return [closed, killed, tensors]


def _write(folder: Path, count: int) -> Any:  # Any: the writer, to be closed by the caller
    writer = open_store(folder).begin_run("damaged", run_id=RUN, config={"every": 1}, tags={"lr": 0.1})
    writer.write_structure(Structure(modules=(ModuleInfo("layer.0", "Linear", 0, ("",)),)))
    records = list(_records(count))
    for begin in range(0, count, 23):
        found = [_finding(begin)] if begin % 5 == 0 else []
        writer.write(records[begin : begin + 23], found)
        writer.maintain()
    writer.write_events([Event("note", count, data={"text": "the end"})])
    writer.write_outcomes([Outcome("apgd-ce", "Linf", 8 / 255, 0.4, 100, 0.9)])
    return writer


def _records(count: int) -> Iterator[StepRecord]:
    layouts = [
        Layout(subject, tuple(f"layer.{at}" for at in range(sites)), _STATISTICS, _DTYPES)
        for subject, sites in (("activation", 20), ("gradient", 6))
    ]
    generator = np.random.default_rng(0)
    for step in range(count):
        blocks = []
        for layout in layouts:
            values = np.zeros((len(layout.sites), 4))
            values[:, :2] = generator.normal(size=(len(layout.sites), 2)).astype(np.float32)
            values[:, 2] = generator.integers(0, 300, len(layout.sites))
            values[:, 3] = 4096
            blocks.append(Block(layout, values))
        yield StepRecord(
            step,
            1.7e9 + step / 64,
            skipped=step % 50 == 7,
            blocks=tuple(blocks),
            scalars={"loss": float(generator.random()), "rate": 0.1},
            histograms=(_histogram(step),) if step % 20 == 0 else (),
            events=(Event("step_skipped", step, data={"loss_scale": 2.0}),) if step % 50 == 7 else (),
        )


def _histogram(step: int) -> Histogram:
    return Histogram("layer.1", "gradient", np.linspace(0.0, 1.0 + step, 9), np.arange(8, dtype=np.int64))


def _finding(step: int) -> Finding:
    return Finding(
        rule="dead-relu",
        cause="dead_units",
        severity="warning",
        step=step,
        first_step=step,
        site="layer.1",
        metric="activation/zeros",
        evidence={"share": 0.25},
        explanation="units never fire",
        advice="lower the learning rate",
        order=(0, 1, 4),
    )


#: What a stranger would ask a store for, by name.
_READS: Final[dict[str, Callable[[Store], Any]]] = {
    "run": lambda store: _settled(store.find_run(RUN)),
    "runs": lambda store: [_settled(run) for run in store.runs()],
    "structure": lambda store: store.structure(RUN),
    "layouts": lambda store: store.layouts(RUN),
    "metrics": lambda store: store.metrics(RUN),
    "loss": lambda store: store.series(RUN, "", "scalar/loss", limit=10**6),
    "late loss": lambda store: store.series(RUN, "", "scalar/loss", first=200, last=500, limit=10**6),
    "activation": lambda store: store.series(RUN, "layer.3", "activation/mean", limit=10**6),
    "few points": lambda store: store.series(RUN, "layer.17", "activation/l2_norm", limit=20),
    "map": lambda store: store.matrix(RUN, "activation/mean", limit=30),
    "map of counts": lambda store: store.matrix(RUN, "gradient/zeros", limit=10**4),
    "records": lambda store: list(store.replay(RUN)),
    "some records": lambda store: list(store.replay(RUN, first=250, last=270)),
    "histograms": lambda store: store.histograms(RUN, "layer.1", "gradient"),
    "events": lambda store: store.events(RUN),
    "findings": lambda store: store.findings(RUN),
    "outcomes": lambda store: store.outcomes(RUN),
    "tensors": lambda store: [bytes(blobs_of(store.url, RUN).get(digest)) for digest in _digests(store.url)],
}


def _digests(url: str) -> list[str]:
    names = Path(url).parent / "digests.json"
    known: list[str] = json.loads(names.read_text()) if names.exists() else []
    return known


def _settled(run: Any) -> Any:  # Any: a `Run`
    """Return the run without what time alone changes: a killed run is `running` while its process lives."""
    return replace(run, state="" if run.state in ("running", "crashed") else run.state, error="")


def read_all(folder: Path) -> tuple[dict[str, bytes], list[str], list[str]]:
    """Return what each read gave, as bytes, what was told of damage, and what went wrong otherwise."""
    found: dict[str, bytes] = {}
    told: list[str] = []
    crashes: list[str] = []
    messages = _Messages()
    logger = logging.getLogger("mindscope.storage")
    logger.addHandler(messages)
    try:
        with open_store(folder) as store:
            for name, read in _READS.items():
                try:
                    found[name] = _bits(read(store))
                except StoreError as error:
                    told.append(f"{name}: {error}")
                    rest = getattr(error, "rest", None)
                    found[name] = _bits(_settled(rest) if name == "run" and rest is not None else rest)
                except Exception as error:  # noqa: BLE001  that there is none is what is measured
                    crashes.append(f"{name}: {type(error).__name__}: {error}")
    except StoreError as error:
        told.append(str(error))
    finally:
        logger.removeHandler(messages)
    told += messages.texts
    crashes += [f"words that cannot be printed: {words!r}" for words in told if printable(words) != words]
    return found, told, crashes


class _Messages(logging.Handler):
    """Keeps warnings and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def _bits(value: Any) -> bytes:  # Any: whatever a store returns
    """Return the exact content of a value."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    if isinstance(value, list | tuple):
        return b"[" + b",".join(map(_bits, value)) + b"]"
    if isinstance(value, dict):
        return _bits(sorted(value.items(), key=repr))
    if is_dataclass(value) and not isinstance(value, type):
        return b"(" + b",".join(_bits(getattr(value, field.name)) for field in fields(value)) + b")"
    return value if isinstance(value, bytes) else repr(value).encode()


def damage(folder: Path, generator: random.Random) -> str:
    """Damage one file of a store; return what was done."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".db", ".safetensors") or "-wal" in path.name)
    files = [path for path in files if path.name != "catalogue.db" and path.stat().st_size]
    file = generator.choice(files)
    data = bytearray(file.read_bytes())
    kind = generator.choice(("bit", "bit", "bytes", "zeros", "cut", "removed"))
    at = generator.randrange(len(data))
    if kind == "bit":
        data[at] ^= 1 << generator.randrange(8)
    elif kind == "bytes":
        size = min(generator.choice((1, 4, 64)), len(data) - at)
        data[at : at + size] = generator.randbytes(size)
    elif kind == "zeros":
        size = min(generator.choice((16, 512, 4096)), len(data) - at)
        data[at : at + size] = bytes(size)
    elif kind == "cut":
        del data[at:]
    elif file.suffix == ".db":  # a run that is gone as a whole is not damaged
        kind = "bit"
        data[at] ^= 1
    if kind == "removed":
        file.unlink()
    else:
        file.write_bytes(data)
    return f"{folder.name}/{file.name.split('.')[-1]}: {kind} at {at} of {len(data)}"


def campaign(trials: int, seed: int) -> list[Trial]:
    """Run so many trials; the same seed damages the same bytes."""
    generator = random.Random(seed)
    found = []
    with tempfile.TemporaryDirectory() as place:
        samples = write_samples(Path(place))
        for sample in samples:
            digests = sorted(path.stem for path in sample.rglob("*.safetensors"))
            (sample / "digests.json").write_text(json.dumps(digests))
        truths = {sample: _truth(sample) for sample in samples}
        for _ in range(trials):
            sample = generator.choice(samples)
            copy = Path(place) / "copy" / sample.name
            shutil.copytree(sample, copy)
            what = damage(copy, generator)
            found.append(judged(what, truths[sample], *read_all(copy)))
            shutil.rmtree(copy.parent)
    return found


def _truth(sample: Path) -> dict[str, bytes]:
    copy = sample.parent / "truth" / sample.name
    shutil.copytree(sample, copy)
    found, told, crashes = read_all(copy)
    if told or crashes:
        raise RuntimeError(f"an intact store is said to be damaged: {(told + crashes)[0]}")
    with suppress(OSError):
        shutil.rmtree(copy.parent)
    return found


def judged(what: str, truth: dict[str, bytes], found: dict[str, bytes], told: list[str], crashes: list[str]) -> Trial:
    """Return what a trial tells, of what was read before and after the damage."""
    wrong = [name for name in truth if found.get(name) != truth[name]]
    intact = 1 - len(wrong) / len(truth)
    if crashes:
        return Trial(what, CRASHED, crashes[0], intact)
    if not wrong:
        return Trial(what, INTACT if not told else TOLD, told[0] if told else "", intact)
    unsaid = [name for name in wrong if not any(words.startswith(f"{name}: ") for words in told)]
    if unsaid and not any("damaged" in words for words in told):
        return Trial(what, WRONG, ", ".join(unsaid), intact)
    return Trial(what, TOLD, told[0], intact)


def measure(quick: bool, seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the figures of the campaign, and a line for each trial that was not told."""
    trials = campaign(TRIALS // 10 if quick else TRIALS, seed)
    counts = Counter(trial.outcome for trial in trials)
    told = [trial for trial in trials if trial.outcome == TOLD]
    case, unit = "damaged files", f"of {len(trials)}"
    rows = [at_most(0, case, outcome, counts[outcome], unit) for outcome in (WRONG, CRASHED)]
    rows += [at_most(None, case, outcome, counts[outcome], unit) for outcome in (TOLD, INTACT)]
    share = 100 * sum(trial.intact for trial in told) / max(len(told), 1)
    rows.append(at_most(None, case, "reads intact beside the damage", share, "%"))
    return rows, [f"{trial.damage}: {trial.words}" for trial in trials if trial.outcome in (WRONG, CRASHED)]
