"""`mindscope doctor SCRIPT`: the first steps of a script, watched closely, and one of them repeated on copies."""

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from .failures import WrongUse
from .output import print_json
from .plain_facts import fact_lines

if TYPE_CHECKING:
    from ..insight import Diagnosis
    from ..probe.script_world import TrainingScript

#: Steps and seconds that a script is let run, from its first step on; the second step comes before the time ends. By
#: then the checks have run twice. Our choice.
STEPS, _MOST_S = 60, 20.0
#: Events of every run that are no sign of a problem.
_QUIET = frozenset({"initial_weight", "program_text"})


class _Rehearsal:
    """Watches a script until it has been seen enough of, and stops it there.

    Args:
        steps: How many steps the script may make.
    """

    def __init__(self, script: "TrainingScript", config: Any, *, steps: int) -> None:  # Any: imported late
        from ..insight import LiveDiagnosis
        from ..storage import open_store

        self._script, self._config, self._steps = script, config, steps
        self.store, self.diagnosis = open_store("memory:"), LiveDiagnosis()
        self.monitor: Any = None  # a monitor of any framework
        self._is_repeated: Callable[[], bool] = bool  # until a model is found
        self._began = 0.0

    def watch(self, adapter: Any) -> Any:  # Any: an adapter of any framework
        """Begin to watch the model that was found."""
        from ..probe import begin

        self.monitor = begin(
            adapter, self.store, self._config, name=self._script.path.stem, listeners=(self.diagnosis,)
        )
        self._began = monotonic()
        if hasattr(adapter, "rehearse"):
            self._is_repeated = adapter.rehearse(self._steps - 1, self._stop, freezes=_freezes(self._script.path))
        else:
            self._is_repeated = _always
            adapter.modules()[""].register_forward_pre_hook(self._stop)
        return self.monitor

    def _stop(self, *_: object) -> None:
        """Stop the script before a forward of the model, if enough was seen."""
        from ..probe.errors import Stopped

        step = self.monitor.step
        is_late = step >= min(2, self._steps) and self._is_repeated() and monotonic() - self._began > _MOST_S
        if step >= self._steps or is_late:
            raise Stopped(0)


def _always() -> bool:
    return True


def _freezes(path: Path) -> bool:
    """Return whether the script sets requires_grad of parameters, or has a word for freezing in its code."""
    code = path.read_text(errors="replace")
    words = re.findall(r"[\"'#].*|(\w*(?:freez|frozen)\w*|\brequires_grad\s*=(?!=)|\.requires_grad_\()", code, re.I)
    return any(word for word in words) and "parameters()" in code


def examine(
    script: "TrainingScript", arguments: Sequence[str], *, steps: int, is_causal: bool, as_document: bool
) -> int:
    """Run the first steps of a script and report; return exit code 1 if a finding is worse than a notice.

    Args:
        steps: How many steps the script may make.
        is_causal: Whether the model must be causal, so that a leak is a finding.
    """
    from ..insight import render_json, render_text
    from ..probe import load_config
    from ..probe.script_runner import run_to_end
    from ..probe.watch_session import rehearsal

    config = load_config(None, causality=True if is_causal else "report")
    watched = _Rehearsal(script, config, steps=steps)
    with redirect_stdout(sys.stderr), rehearsal(is_hasty=False):  # the output of the script must not mix with ours
        code, reason, _ = run_to_end(script, arguments, watched.watch)
    if reason:
        raise WrongUse(reason)
    run, found, made = watched.monitor.run.id, _of_no_store(watched.diagnosis.diagnosis(), script), watched.monitor.step
    records = watched.store.replay(run)
    facts = [fact for record in records for fact in map(_fact, record.events) if fact["kind"] not in _QUIET]
    if as_document:
        print_json(
            {
                "script": str(script),
                "exit_code": code,
                "steps": made,
                "parameters": len(watched.store.structure(run).parameters),
                "facts": facts,
                "diagnosis": render_json(found),
            }
        )
    else:
        print(f"{script}: {made} steps were run, exit code {code}\n")
        quiet = len(found.reasons)  # after so few steps that is most rules
        print(render_text(replace(found, run=str(script), state="finished", reasons={})))
        if quiet:
            print(f"\n{quiet} rules need more than {made} steps; --steps N runs N of them")
        for line in fact_lines(facts):
            print(line)
    return int(any(finding.severity != "info" for finding in found.findings))


def _of_no_store(found: "Diagnosis", script: "TrainingScript") -> "Diagnosis":
    """Return the diagnosis of a rehearsal, which no store keeps: no series is named, and running it comes next."""
    judgement = found.judgement
    command = f"mindscope run {script}" if judgement.next_command else ""
    return replace(found, is_stored=False, judgement=replace(judgement, next_command=command))


def _fact(event: Any) -> dict[str, Any]:  # Any: an event of storage, which is imported late
    return {"kind": event.kind, "step": event.step, "site": event.site, **event.data}
