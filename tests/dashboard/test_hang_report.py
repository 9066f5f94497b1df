"""Page Ranks shows who hangs while it hangs, and nothing while all is well."""

import time
from dataclasses import replace

from dash import html
from mindscope.dashboard.components.hang_report import hang_panel, hang_section
from mindscope.dashboard.queries.reader import Reader
from mindscope.insight.hangs.hang_report import HangReport, MissingRank, WaitingRank
from mindscope.storage import open_store
from mindscope.storage.last_words import FolderWords

from tests.insight.hangs.words import call, calls, main_thread, word

from .ranked import write_ranks

REPORT = HangReport(
    state="hang",
    words="rank 1 sleeps. rank 0 waits in all_reduce",
    kind="sleep",
    culprits=(1,),
    step=7,
    waited_s=12.0,
    waiting=(WaitingRank(0, "all_reduce", "world", 41, ((4,),), "float32", "train.py", 10, 12.0),),
    missing=(MissingRank(1, "sleep", "sleeps at train.py:50"),),
    advice="look at this rank",
    stacks={1: ("train.py:50 in step",)},
)


def text_of(component: object) -> str:
    if isinstance(component, list | tuple):
        return " ".join(map(text_of, component))
    return text_of(component.children) if hasattr(component, "children") else str(component or "")


def test_the_panel_answers_who_since_when_and_what_to_do() -> None:
    shown = text_of(hang_panel(REPORT, time.time()))
    for words in (
        "Hang · rank 1: sleep",
        "step 7, since",
        "waits in all_reduce of world, call 41",
        "look at this rank",
    ):
        assert words in shown
    assert "train.py:50 in step" in shown


def test_the_table_of_many_ranks_is_folded() -> None:
    for count, is_open in ((2, True), (64, False)):
        panel = hang_panel(replace(REPORT, stacks={rank: ("train.py:50",) for rank in range(count)}), time.time())
        (fold,) = [part for part in panel._traverse() if isinstance(part, html.Details)]
        assert (fold.open, f"each of {count} ranks" in text_of(fold)) == (is_open, True)


def test_the_section_follows_the_words_and_is_empty_while_all_is_well(tmp_path) -> None:
    with open_store(str(tmp_path)) as store:
        run = write_ranks(store)
        reader = Reader(store)
        assert hang_section(reader, run).children == []
        words = FolderWords(tmp_path, run.id)
        now = time.time()
        threads = main_thread(("/home/me/train.py", 50, "step"), code="time.sleep(9)")
        words.write(0, word(0, [*calls(), replace(call(9), began_at=now - 12)], at=now).encode())
        words.write(1, word(1, calls(), at=now, threads=threads).encode())
        words.close()
        section = hang_section(Reader(store), run)
        assert isinstance(section, html.Div)
        assert "rank 1 sleeps at train.py:50" in text_of(section)
