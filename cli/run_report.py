"""What `mindscope run` says of the run: its id when it begins; the verdict and where to look when it has ended."""

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from .store_options import DEFAULT_STORE, is_path

if TYPE_CHECKING:
    from ..insight import Diagnosis
    from ..storage import Run

#: Root causes that are named, and characters of each explanation (our choice: a few lines of a terminal).
_MOST: Final = 3
_LONGEST: Final = 300


class RunReport:
    """Prints lines that begin with `mindscope: ` on a stream; the script's own output stays as it is.

    Args:
        store: As it was named on the command line.
        stream: The stderr of the command, which the script may replace for itself.
    """

    def __init__(self, store: str, stream: TextIO) -> None:
        self._store, self._stream = store, stream
        self._place = str(Path(store).absolute()) if is_path(store) else store  # the script may change its folder
        self._process = os.getpid()

    def __call__(self, run: "Run", diagnosis: "Diagnosis | None") -> None:
        """Print that the run begins or, with its diagnosis, how it ended."""
        if os.getpid() != self._process:
            return  # a fork of the script
        lines = [self._begin(run)] if diagnosis is None else self._end(run, diagnosis)
        with suppress(OSError, ValueError):  # the script may have closed the stream
            self._stream.writelines([f"mindscope: {line}\n" for line in lines])
            self._stream.flush()

    @property
    def _shown(self) -> str:
        from ..storage.errors import without_passwords

        return without_passwords(self._store)

    def _begin(self, run: "Run") -> str:
        from ..watching import AFTER

        before = run.tags.get(AFTER)
        missing = f"; it is trained after {before}, and its steps until that was clear are missing" if before else ""
        return f"run {run.id} is recorded in {self._shown}{missing}"

    def _end(self, run: "Run", diagnosis: "Diagnosis") -> Iterator[str]:
        from ..insight import render_text
        from ..storage import display_site
        from ..storage.plain_text import one_line
        from ..storage.streams.transport import is_stream

        yield render_text(diagnosis).partition("\n")[0]
        for number, root in enumerate(diagnosis.root_causes[:_MOST], 1):
            where = f"{root.cause} at {display_site(root.site)} since step {root.first_step}"
            yield f"  {number}. {where}: {one_line(root.explanation, _LONGEST)}"
        if len(diagnosis.root_causes) > _MOST:
            yield f"  and {len(diagnosis.root_causes) - _MOST} more"
        if len(run.ranks) > len(diagnosis.ranks):
            yield f"  (rank {diagnosis.ranks[0]} of {len(run.ranks)}; the command below reads all of them)"
        if is_stream(self._store):
            yield f"collect it: mindscope collect --from {shlex.quote(self._shown)} --store {DEFAULT_STORE}"
            return
        place = "" if self._store == DEFAULT_STORE else f" --store {shlex.quote(self._shown)}"
        yield f"look at it: mindscope diagnose {run.id}{place}; mindscope dashboard {shlex.quote(self._shown)}"
