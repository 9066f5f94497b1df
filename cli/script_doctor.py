"""`mindscope doctor script.py` runs two steps of a training and reports what is wrong before the third."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .failures import WrongUse
from .output import print_json

if TYPE_CHECKING:
    from ..probe.script import Program

#: Events of every run that say nothing about health.
_QUIET = frozenset({"initial_weight"})
#: Events that hold checksums alone: to compare runs with, not to read.
_FINGERPRINTS = frozenset({"initial_checksum", "random_state", "resume_point"})
#: Names of lists in a fact that are long in most models; the count says as much.
_SHOWN = 4


def examine(script: "Program", arguments: Sequence[str], *, steps: int, is_causal: bool, as_document: bool) -> int:
    """The exit code: 1 when anything is found that is worse than a notice.

    Args:
        steps: How many steps the script may make.
        is_causal: The model is meant to be causal, so that a leak is a finding.
    """
    from ..insight import LiveDiagnosis, render_json, render_text
    from ..probe import begin, load_config
    from ..probe.rehearsal import rehearsal
    from ..probe.script import Stopped, run_to_end
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

    with redirect_stdout(sys.stderr), rehearsal():  # what the script prints is not ours
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
        quiet = len(found.reasons)  # after so few steps that is most rules, and no news
        print(render_text(replace(found, run=str(script), state="finished", reasons={})))
        if quiet:
            print(f"\n{quiet} rules need more than {monitors[0].step} steps; --steps N runs N of them")
        if facts:
            print("\nfacts that were seen:")
        for line in _lines(facts):
            print(line)
    return int(any(finding.severity != "info" for finding in found.findings))


def _fact(event: Any) -> dict[str, Any]:  # Any: an event of storage, which is loaded late
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
