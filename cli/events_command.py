"""`mindscope events RUN` lists the events of a run: skipped steps, changes, faults and others."""

import json
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Final

import typer

from .failures import WrongUse
from .output import add_row, console, print_json, remark, table
from .store_options import DEFAULT_STORE, JsonOption, RunArgument, StoreOption, open_existing

if TYPE_CHECKING:
    from ..storage import Event, Run, Store

#: Newest events of a rank that are searched for a pattern.
_ALL: Final = 100_000
#: Most characters of a list or mapping in the table, and of a sentence (our choice: a line of a terminal, and four).
_SHOWN: Final = 60
_SENTENCES: Final = 320

_RankEvent = tuple[int, "Event"]


def events(
    run: RunArgument = "latest",
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Only of this kind, or glob of kinds; may be repeated."),
    ] = None,
    rank: Annotated[int | None, typer.Option("--rank", help="Only of this rank.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many at most, the newest.")] = 100,
    is_full: Annotated[bool, typer.Option("--full", help="Show long text in full, as --json does.")] = False,
    store: StoreOption = DEFAULT_STORE,
    as_document: JsonOption = False,
) -> int:
    """List the events of a run, oldest first: what happened, and at which step."""
    with open_existing(store) as opened:
        found = opened.find_run(run)
        ranks = _ranks(found, rank)
        newest = _newest(opened, found, ranks, kind or [], limit + 1)
        others = [] if newest else _kinds(opened, found, ranks)
    shown = newest[-limit:]
    if as_document:
        print_json({"run": found.id, "events": [_document(rank, event) for rank, event in shown]})
    elif shown:
        _print(shown, with_rank=len(found.ranks) > 1, is_full=is_full)
    else:
        print(_nothing(found, kind or [], others))
    if len(newest) > limit:
        remark(f"the newest {limit} are shown; --limit N shows more")
    return 0


def _ranks(run: "Run", rank: int | None) -> Sequence[int]:
    if rank is None:
        return run.ranks
    if rank not in run.ranks:
        raise WrongUse(f"run {run.name!r} has no rank {rank}; its ranks are {', '.join(map(str, run.ranks))}")
    return (rank,)


def _newest(store: "Store", run: "Run", ranks: Iterable[int], kinds: Sequence[str], limit: int) -> list[_RankEvent]:
    """Return the newest events of these kinds with their ranks, oldest first."""
    newest = [(rank, event) for rank in ranks for event in _of(store, run, rank, kinds, limit)]
    return sorted(newest, key=lambda entry: (entry[1].step, entry[1].micro_step, entry[0]))[-limit:]


def _of(store: "Store", run: "Run", rank: int, kinds: Sequence[str], limit: int) -> "Iterable[Event]":
    if not kinds:
        return store.events(run.id, rank=rank, limit=limit)
    if len(kinds) == 1 and not _is_pattern(kinds[0]):
        return store.events(run.id, rank=rank, kind=kinds[0], limit=limit)
    every = store.events(run.id, rank=rank, limit=_ALL)
    return [event for event in every if any(fnmatchcase(event.kind, pattern) for pattern in kinds)]


def _kinds(store: "Store", run: "Run", ranks: Iterable[int]) -> list[str]:
    return sorted({event.kind for rank in ranks for event in store.events(run.id, rank=rank, limit=_ALL)})


def _nothing(run: "Run", kinds: Sequence[str], others: Sequence[str]) -> str:
    from ..storage import nearest

    if not others:
        return f"run {run.name!r} has no events"
    is_pattern = any(_is_pattern(kind) for kind in kinds)
    near = nearest(kinds[0], others) if len(kinds) == 1 and not is_pattern else ""
    which = "whose kind matches" if is_pattern else "of kind"
    return f"run {run.name!r} has no event {which} {', '.join(map(repr, kinds))}, only {', '.join(others)}{near}"


def _is_pattern(kind: str) -> bool:
    return any(sign in kind for sign in "*?[")


def _document(rank: int, event: "Event") -> dict[str, object]:
    return {
        "rank": rank,
        "step": event.step,
        "micro_step": event.micro_step,
        "kind": event.kind,
        "site": event.site,
        "data": event.data,
    }


def _print(shown: Sequence[_RankEvent], *, with_rank: bool, is_full: bool) -> None:
    from ..storage import display_site

    columns = ["step", *(["rank"] if with_rank else []), "kind", "site", "what"]
    listing = table("", *columns, right=("step", "rank"))
    is_cut = False
    for rank, event in shown:
        site = display_site(event.site) if event.site else ""
        micro = {"micro-step": event.micro_step} if event.micro_step else {}
        what, is_short = _words({**micro, **event.data}, is_full=is_full)
        is_cut |= is_short
        add_row(listing, str(event.step), *([str(rank)] if with_rank else []), event.kind, site, what)
    console().print(listing)
    if is_cut:
        remark("text that ends in ... is cut; --full and --json show all of it")


def _words(data: Mapping[str, object], *, is_full: bool) -> tuple[str, bool]:
    """Return the fields in a line, and whether some are cut."""
    whole = [_text(value) for value in data.values()]
    shown = whole if is_full else [_clipped(text) for text in whole]
    line = ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in zip(data, shown, strict=True))
    return line, shown != whole


def _text(value: object) -> str:
    from ..storage.plain_text import without_escapes

    if isinstance(value, float):
        return f"{value:.4g}"
    text = without_escapes(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return " ".join(text.split())


def _clipped(text: str) -> str:
    """Return the text, cut if it is too long; a sentence may be longer than a list or mapping."""
    shown = _SHOWN if text.startswith(("[", "{")) else _SENTENCES
    return text if len(text) <= shown else f"{text[: shown - 3]}..."
