"""`mindscope profile RUN` reports where a run's time and memory go, and writes its timeline."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from .failures import WrongUse
from .output import print_json, remark
from .store_options import DEFAULT_STORE, JsonOption, RunArgument, StoreOption, open_existing

_Trace = Annotated[
    str, typer.Option("--trace", metavar="FILE", help="Write the timeline for chrome://tracing or Perfetto.")
]
_Steps = Annotated[
    str, typer.Option("--steps", metavar="FIRST,LAST", help="Steps of the timeline; the newest by default.")
]


def profile(
    run: RunArgument = "latest",
    store: StoreOption = DEFAULT_STORE,
    trace: _Trace = "",
    steps: _Steps = "",
    as_document: JsonOption = False,
) -> int:
    """Report where the time of a step and the memory go, which rank is the slowest, and what to do."""
    first, last = _range(steps)
    from ..insight.profile import chrome_trace, render_profile
    from ..insight.profile.run_profile import profile as profile_of

    with open_existing(store) as opened:
        known = opened.find_run(run)
        if trace:
            _write(Path(trace), chrome_trace(opened, known, first=first, last=last))
        found = profile_of(opened, known)
    if as_document:
        print_json(replace(found, profiled=tuple(replace(step, spans=()) for step in found.profiled)))
    else:
        print(render_profile(found))
    return 0


def _write(path: Path, document: object) -> None:
    import json

    try:
        path.write_text(json.dumps(document, allow_nan=False))
    except OSError as error:
        raise WrongUse(
            f"the timeline cannot be written to {str(path)!r}: {error.strerror}; name another file"
        ) from None
    remark(f"timeline written to {path}; open it at https://ui.perfetto.dev or chrome://tracing")


def _range(text: str) -> tuple[int | None, int | None]:
    if not text:
        return None, None
    words = text.split(",")
    if len(words) != 2 or not all(word.strip().isdigit() for word in words):
        raise WrongUse(f"--steps expects two numbers, as 100,120, got {text!r}")
    return int(words[0]), int(words[1])
