"""What the store, the command line and the pages say of one run, in the same few facts."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from dash.development.base_component import Component
from mindscope.dashboard.address import PageAddress
from mindscope.dashboard.export.html_report import verdict_parts
from mindscope.dashboard.formatting import number, sentence
from mindscope.dashboard.pages.live_run import live_run_page
from mindscope.dashboard.pages.runs.run_rows import RunDetailsCache, run_table
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import Run, Store, state_in_words

#: What a card shows where there is nothing to show.
NOTHING: Final = "–"

#: `mindscope ARGUMENTS`, returning what it printed.
Command = Callable[..., str]


@dataclass(frozen=True)
class Statement:
    """What somebody says of a run; None where it says nothing about it.

    Args:
        verdict: In words, in lower case.
        cause: The first root cause.
        last: The newest loss, as text of four digits.
    """

    verdict: str | None = None
    cause: str | None = None
    state: str | None = None
    last: str | None = None
    best: str | None = None


def words(value: object) -> str:
    """Return the text of a component."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return "".join(map(words, value))
    return words(getattr(value, "children", None)) if isinstance(value, Component) else str(value)


def components(part: object) -> Iterator[Component]:
    """Yield the component and all inside."""
    if isinstance(part, list | tuple):
        for child in part:
            yield from components(child)
    elif isinstance(part, Component):
        yield part
        yield from components(getattr(part, "children", None))


def by_store(store: Store, run: Run) -> Statement:
    """What the records themselves say, all of them read."""
    losses = [
        record.scalars["loss"] for record in store.replay(run.id, rank=run.first_rank) if "loss" in record.scalars
    ]
    finite = [loss for loss in losses if math.isfinite(loss)]
    last, best = number(losses[-1]) if losses else "", number(min(finite)) if finite else ""
    return Statement(state=store.find_run(run.id).state_words, last=last, best=best)


def by_diagnose(command: Command, url: str, run: Run) -> Statement:
    found = json.loads(command("diagnose", run.id, "--store", url, "--json"))
    cause = found["root_causes"][0]["cause"] if found["verdict"] == "unhealthy" else ""
    return Statement(verdict=found["verdict_words"], cause=sentence(cause))


def by_show(command: Command, url: str, run: Run) -> Statement:
    found = json.loads(command("show", run.id, "--store", url, "--json"))
    loss = found["loss"]
    last, best = ("" if loss[name] is None else number(float(loss[name])) for name in ("last", "best"))
    return Statement(found["verdict_words"], sentence(found["first_cause"]), _words(run, found), last, best)


def by_runs(command: Command, url: str, run: Run) -> Statement:
    every = json.loads(command("runs", url, "--json"))["runs"]
    found = next(one for one in every if one["id"] == run.id)
    return Statement(found["verdict_words"], sentence(found["first_cause"]), _words(run, found))


def _words(run: Run, found: Mapping[str, Any]) -> str:
    return state_in_words(found["state"], found["error"])


def by_row(reader: Reader, run: Run) -> Statement:
    """What the list of runs says, once it was read."""
    (row,) = run_table(RunDetailsCache(reader), [run], "", ["loss"], now=0.0, for_s=60.0).rows
    loss = row.get("field.loss")
    last = "" if loss is None else number(float(loss))
    has_cause = bool(row["severity"])  # else the column has the verdict
    verdict, cause = ("unhealthy", row["worst"]) if has_cause else (row["worst"].lower(), "")
    return Statement(verdict, cause, row["state"], last)


def by_page(reader: Reader, run: Run) -> Statement:
    return _by_cards(live_run_page.layout(reader, PageAddress("run", run=run.id)))


def by_report(reader: Reader, run: Run) -> Statement:
    """What the exported report says, in the components of which it is made."""
    return replace(_by_cards(verdict_parts(reader, run)), state=None)


def _by_cards(layout: object) -> Statement:
    shown = {}
    for part in components(layout):
        kinds = str(getattr(part, "className", "")).split(" ")
        if kinds[0] == "card":
            label, value, note = map(words, part.children)
            shown[label] = (value, note)
        elif kinds[0] == "badge" and "badge" not in shown:
            shown["badge"] = (words(part.children[1]), "")
    cause = shown["Why"][0].replace(NOTHING, "")
    verdict, state = shown["Verdict"][0].lower(), shown.get("badge", ("", ""))[0]
    if "Loss" not in shown:  # the card quotes another scalar of a run that has no `loss`
        return Statement(verdict, cause, state)
    last, best = shown["Loss"][0].replace(NOTHING, ""), shown["Loss"][1]
    best = best.removeprefix("best ").partition(" ")[0] if best.startswith("best ") else ""
    return Statement(verdict, cause, state, last, best)


def all_said(store: Store, reader: Reader, run: Run, command: Command) -> dict[str, Statement]:
    """Return what each place says of the run."""
    return {
        "store": by_store(store, run),
        "diagnose": by_diagnose(command, store.url, run),
        "show": by_show(command, store.url, run),
        "runs": by_runs(command, store.url, run),
        "list": by_row(reader, run),
        "page": by_page(reader, run),
        "report": by_report(reader, run),
    }


def differences(said: Mapping[str, Statement]) -> dict[str, dict[str, str]]:
    """Return each fact about which they do not agree, with what each says."""
    found = {}
    for fact in (item.name for item in fields(Statement)):
        each = {who: value for who, one in said.items() if (value := getattr(one, fact)) is not None}
        if len(set(each.values())) > 1:
            found[fact] = each
    return found
