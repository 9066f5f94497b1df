"""Hands damaged and odd inputs to a reader and judges the answers.

    report = fuzz(READERS["csv"], 1000, seed=0)
    assert not report.failures, report.words()

An input is *read* or *refused*. A refusal is an error of one of mindscope's own classes, with a message. Everything
else is a failure: any other exception (the command would end with 70), more than two seconds, more than a gigabyte.
"""

import random
import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis.strategies import SearchStrategy

from tests.fuzzing.limits import LastedTooLong, bounded_memory, bounded_time
from tests.fuzzing.mutations import mutated

#: What one input may take: time, and memory beyond what the process has.
LIMIT_S: Final = 2.0
SPARE_BYTES: Final = 2**30
_OURS: Final = "mindscope"


@dataclass(frozen=True, slots=True)
class Reader:
    """Something that reads what users hand over.

    Args:
        seeds: Valid inputs, in the folder that it may use for making them.
        read: Reads an input, in a folder of its own; raises what the reader raises.
        mutate: One input from the valid ones.
        odd: Draws inputs by their grammar; None where all come from valid ones.
    """

    name: str
    seeds: Callable[[Path], Sequence[bytes]]
    read: Callable[[bytes, Path], object]
    mutate: Callable[[random.Random, Sequence[bytes]], bytes] = mutated
    odd: SearchStrategy[bytes] | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An input that was neither read nor refused.

    Args:
        number: Which of the inputs it was.
        words: What happened.
    """

    number: int
    words: str
    data: bytes


@dataclass(slots=True)
class FuzzReport:
    """What became of the inputs.

    Args:
        slowest_s: The most time of the processor that one input took.
        grown_bytes: By how much the process' peak of resident memory grew.
    """

    reader: str
    inputs: int = 0
    read: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    grown_bytes: int = 0
    failures: list[Failure] = field(default_factory=list)

    def words(self) -> str:
        """Describe the first failures, each with its input."""
        shown = [f"  input {f.number}: {f.words}\n    {f.data[:300]!r}" for f in self.failures[:5]]
        return f"{len(self.failures)} of {self.inputs} inputs of {self.reader} failed:\n" + "\n".join(shown)


def fuzz(reader: Reader, count: int, seed: int) -> FuzzReport:
    """Hand `count` inputs to the reader; the same seed makes the same inputs.

    Needs the main thread, whose timer stops what lasts too long.
    """
    report = FuzzReport(reader.name)
    before = _peak_bytes()
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        valid = Path(folder, "valid")
        valid.mkdir()
        inputs = list(_inputs(reader, reader.seeds(valid), count, seed))
        _warm_up(reader, inputs[0], Path(folder, "first"))
        with bounded_memory(SPARE_BYTES):
            for number, data in enumerate(inputs):
                place = Path(folder, str(number))
                place.mkdir()
                judge(reader, number, data, place, report)
                remove(place)
    report.grown_bytes = _peak_bytes() - before
    return report


def _warm_up(reader: Reader, data: bytes, folder: Path) -> None:
    """Read a valid input once without limits: what is imported and compiled then is no matter of the inputs."""
    folder.mkdir()
    reader.read(data, folder)
    remove(folder)


def _inputs(reader: Reader, seeds: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Yield the valid inputs themselves, then odd ones and mutated ones in turn."""
    draw = random.Random(f"{reader.name} {seed}")
    drawn = iter(_drawn(reader.odd, count // 2, seed) if reader.odd is not None else ())
    for number in range(count):
        if number < min(len(seeds), count // 10):
            yield seeds[number]
            continue
        odd = next(drawn, None) if number % 2 else None
        yield reader.mutate(draw, seeds) if odd is None else odd


def _drawn(strategy: SearchStrategy[bytes], count: int, seed: int) -> list[bytes]:
    found: list[bytes] = []

    @seeded(seed)
    @settings(
        max_examples=max(count, 1),
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(data: bytes) -> None:
        found.append(data)

    draw()
    return found


def judge(reader: Reader, number: int, data: bytes, folder: Path, report: FuzzReport) -> None:
    """Hand one input to the reader, in an empty folder, and add to the report what became of it."""
    report.inputs += 1
    begin = time.process_time()
    try:
        with bounded_time(LIMIT_S):
            reader.read(data, folder)
        report.read += 1
        words = ""
    except (Exception, LastedTooLong, SystemExit) as error:  # noqa: BLE001  (which one it is, is the question)
        words = _fault(error)
        report.refused += not words
    report.slowest_s = max(report.slowest_s, time.process_time() - begin)
    if words:
        report.failures.append(Failure(number, words, data))


def _fault(error: BaseException) -> str:
    """Return what is wrong with an answer, "" where it is a proper refusal."""
    kind, message = type(error), str(error)
    named = f"{kind.__module__}.{kind.__qualname__}: {message[:300]}"
    if kind.__module__.partition(".")[0] != _OURS:
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        return named if place is None else f"{named} ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})"
    return "" if message.strip() else f"{named}: says nothing"


def remove(folder: Path) -> None:
    """Remove the folder and all that it holds."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    folder.rmdir()


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
