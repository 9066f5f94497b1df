"""What stands behind the verdict, in the words of `mindscope diagnose`: the end, how sure, what was not checked."""

from collections.abc import Iterable, Sequence
from itertools import islice

from dash import html

from ...insight import Diagnosis
from ...insight.diagnosis_report import account_lines, beside, sections
from ...storage import display_site
from ..formatting import count, sentence
from .page_parts import coded, panel

#: Titles whose lines are shown unfolded where nothing was found: without them a grey verdict means nothing.
_FIRST = ("not checked", "to check more", "questions, which only you can answer")
#: As many reasons are shown unfolded; more would push the curve off the screen. Our choice.
_FEW = 3


_Section = tuple[str, Sequence[str | html.Li]]


def verdict_panel(found: Diagnosis) -> html.Section:
    """Build the panel: its lines in the words of the command line, folded where there are many."""
    is_open = found.verdict != "unhealthy"
    unfolded: list[_Section] = []
    folded: list[_Section] = []
    for title, lines in _with_account(found):
        is_shown = is_open and (title in _FIRST or (title == "why" and len(lines) <= _FEW))
        (unfolded if is_shown else folded).append((title, lines))
    parts = [html.P(coded(sentence_of(line)), className="verdict-line") for line in beside(found)]
    parts += [_list(title, lines) for title, lines in unfolded]
    parts += [_fold(title, lines) for title, lines in folded]
    nothing = html.P("Nothing is known beside what the cards say.", className="muted")
    return panel("What stands behind it", parts or [nothing])


def account_list(found: Diagnosis, root: int) -> html.Ul | None:
    """List what stands behind one root cause; None where the diagnosis has not so many."""
    account = next(islice(found.accounts(), root, None), None)
    if account is None:
        return None
    lines = account_lines(account, found.root_causes[root], found)
    return html.Ul([_line(name, words) for name, words in lines], className="verdict-lines")


def sentence_of(line: str) -> str:
    """Return the line with a capital letter and a full stop."""
    return line[:1].upper() + line[1:] + ("" if line.endswith((".", "?")) else ".")


def _with_account(found: Diagnosis) -> Iterable[_Section]:
    """Yield the sections of the report: of the first root cause, which stands above, what is behind it; the others."""
    for number, (root, account) in enumerate(zip(found.root_causes, found.accounts(), strict=True), start=1):
        lines = [_line(name, words) for name, words in account_lines(account, root, found)]
        if number == 1:
            yield "how sure, and where to look", lines
            continue
        title = f"{number}. {sentence(root.cause)} at {display_site(root.site)} since step {root.first_step}"
        yield title, [_line("what", root.explanation), _line("what to do", root.advice), *lines]
    yield from sections(found)


def _line(name: str, words: str) -> html.Li:
    return html.Li([html.Strong(f"{sentence(name)}. "), *coded(words)])


def _items(lines: Sequence[str | html.Li]) -> html.Ul:
    items = [line if isinstance(line, html.Li) else html.Li(coded(line)) for line in lines]
    return html.Ul(items, className="verdict-lines")


def _list(title: str, lines: Sequence[str | html.Li]) -> html.Div:
    return html.Div([html.Strong(sentence(title)), _items(lines)])


def _fold(title: str, lines: Sequence[str | html.Li]) -> html.Details:
    summary = html.Summary(f"{sentence(title)} ({count(len(lines), 'line')})")
    return html.Details([summary, _items(lines)], className="fold")
