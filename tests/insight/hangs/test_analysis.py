"""From last words to who hangs, who is missing, and what that rank does."""

from dataclasses import replace
from pathlib import Path

import pytest
from mindscope.insight.hangs.activity import Observed
from mindscope.insight.hangs.analysis import analyse
from mindscope.insight.hangs.hang_report import HangReport, group_words, report_of, several
from mindscope.insight.hangs.observation import hang_of_run
from mindscope.insight.hangs.rhythm import left_out
from mindscope.storage import open_store
from mindscope.storage.encoding.record_codec import from_json, to_json
from mindscope.storage.last_words import CollectiveCall, FolderWords, LastWord, PassUse
from mindscope.storage.process import ProcessState, identity

from .words import NOW, STEP, call, calls, main_thread, word

WAITS = word(0, [*calls(), call(9)])
SLEEP = main_thread(("/home/me/train.py", 50, "step"), code="time.sleep(60)", system_call="clock_nanosleep")
ALIVE, DEAD = ProcessState(is_alive=True, letter="S"), ProcessState(is_alive=False)


@pytest.mark.parametrize(
    ("kind", "words", "missing", "seen"),
    [
        ("sleep", "sleeps at train.py:50: time.sleep(60)", {"threads": SLEEP}, ALIVE),
        ("dead", "killed by SIGKILL", {}, DEAD),
        ("stopped", "is stopped", {}, ProcessState(is_alive=True, letter="T")),
        ("silent", "native code holds its interpreter", {"at": NOW - 8}, ALIVE),
        ("exception", "KeyError: 'x'", {"phase": "failed", "error": "KeyError: 'x'"}, DEAD),
        ("finished", "has ended its training", {"phase": "finished"}, DEAD),
        ("paging", "reads pages back", {"major_faults": 900.0, "threads": SLEEP}, ALIVE),
        (
            "lock",
            "waits for a lock at train.py:51: with self.lock:",
            {"threads": main_thread(("/home/me/train.py", 51, "f"), code="with self.lock:", system_call="futex")},
            ALIVE,
        ),
        (
            "data_loader",
            "pt_data_worker",
            {
                "threads": main_thread(
                    ("/usr/lib/python3.11/selectors.py", 415, "select"),
                    ("/v/site-packages/torch/utils/data/dataloader.py", 1200, "_try_get_data"),
                    ("/home/me/train.py", 9, "main"),
                ),
                "children": ("process 9 (pt_data_worker) is asleep",),
            },
            ALIVE,
        ),
        (
            "user_code",
            "system call wait4 at train.py:7",
            {"threads": main_thread(("/home/me/train.py", 7, "main"), system_call="wait4")},
            ALIVE,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_the_missing_rank_is_named_with_what_it_does(
    kind: str, words: str, missing: dict[str, object], seen: ProcessState
) -> None:
    other = word(1, calls(), **missing)
    report = analyse({0: WAITS, 1: other}, NOW, {0: Observed(ALIVE), 1: Observed(seen)})
    assert (report.state, report.culprits, report.kind) == ("hang", (1,), kind)
    assert words in report.words
    assert "rank 0 waits in all_reduce of world at train.py:10 (12 s)" in report.words
    assert report.advice
    assert report_of(report.data()) == replace(report, waited_s=round(report.waited_s, 1))


def test_an_oom_kill_since_the_begin_is_told() -> None:
    report = analyse({0: WAITS, 1: word(1, calls(), oom_kills=2)}, NOW, {1: Observed(DEAD, oom_kills=3)})
    assert "out-of-memory killer" in report.words


def test_a_rank_that_works_is_waited_for_and_the_report_says_so() -> None:
    frames = ("/v/site-packages/torch/serialization.py", 900, "save"), ("/home/me/train.py", 60, "main")
    busy = word(1, calls(), threads=main_thread(*frames), processor=0.9)
    report = analyse({0: WAITS, 1: busy}, NOW)
    assert (report.state, report.kind) == ("slow", "checkpoint")
    assert "writes or reads a checkpoint at train.py:60" in report.words
    late = replace(WAITS, calls=(*WAITS.calls[:-1], replace(WAITS.calls[-1], began_at=NOW - 400)))
    assert analyse({0: late, 1: busy}, NOW).state == "hang"


def test_slow_steps_without_a_waiting_rank_are_no_hang() -> None:
    alone = word(0, calls(), threads=SLEEP, processor=0.9)
    report = analyse({0: alone, 1: word(1, calls(), threads=SLEEP)}, NOW)
    assert (report.state, report.culprits) == ("slow", ())
    assert report.words.startswith("no rank waits in a collective; rank 0 sleeps at train.py:50")


@pytest.mark.parametrize(("step_s", "state"), [(0.1, "hang"), (2.0, "slow"), (0.0, "slow")])
def test_a_wait_is_too_long_after_ten_steps_and_later_while_the_pace_is_unknown(step_s: float, state: str) -> None:
    waits, other = replace(WAITS, step_s=step_s), word(1, calls(), threads=SLEEP)
    assert analyse({0: waits, 1: other}, NOW).state == state


def test_a_wait_for_a_rank_that_is_gone_is_too_long_at_once() -> None:
    waits = replace(WAITS, step_s=2.0, calls=(*WAITS.calls[:-1], replace(WAITS.calls[-1], began_at=NOW - 3)))
    report = analyse({0: waits, 1: word(1, calls())}, NOW, {1: Observed(DEAD)})
    assert (report.state, report.kind) == ("hang", "dead")


def test_a_chain_of_waits_leads_to_the_rank_at_its_end() -> None:
    groups = {"world": (0, 1, 2), "pair": (1, 2)}
    first = word(0, [*calls(), call(9)], 3, groups=groups)
    second = word(1, [*calls(), call(0, line=30, group="pair")], 3, groups=groups)
    third = word(2, calls(), 3, groups=groups, threads=SLEEP)
    report = analyse({0: first, 1: second, 2: third}, NOW)
    assert (report.culprits, report.kind) == ((2,), "sleep")


def test_groups_in_another_order_are_a_deadlock() -> None:
    groups = {"a": (0, 1), "b": (0, 1)}
    one = word(0, [call(0, line=30, group="a")], groups=groups)
    other = word(1, [call(0, line=31, group="b")], groups=groups)
    report = analyse({0: one, 1: other}, NOW)
    assert (report.culprits, report.kind) == ((0, 1), "deadlock")


def test_a_peer_that_is_killed_is_to_blame_and_not_who_failed_through_it() -> None:
    failed = replace(call(9), state="failed", ended_at=NOW)
    victim = word(0, [*calls(), failed], phase="failed", error="RuntimeError: Connection closed by peer")
    report = analyse({0: victim, 1: word(1, calls())}, NOW, {0: Observed(ALIVE), 1: Observed(DEAD)})
    assert (report.state, report.culprits, report.kind) == ("failed", (1,), "dead")


def test_a_process_that_its_collective_has_ended_differs_from_the_others() -> None:
    failed = replace(call(9), state="failed", ended_at=NOW)
    others = word(0, [*calls(), failed], phase="failed", error="RuntimeError: Connection closed by peer")
    notes = {1: "Aborted at /home/me/train.py, line 11"}
    report = analyse({0: others, 1: word(1, calls())}, NOW, {1: Observed(DEAD)}, notes)
    assert (report.culprits, report.kind) == ((1,), "skipped")
    assert "has skipped all_reduce at train.py:10 and is at all_reduce at train.py:11" in report.words


def test_ranks_that_all_were_ended_later_are_judged_as_of_their_end() -> None:
    words = {0: WAITS, 1: word(1, calls(), threads=SLEEP)}
    report = analyse(words, NOW + 3600, {rank: Observed(DEAD) for rank in words})
    assert (report.culprits, report.kind, round(report.waited_s)) == ((1,), "sleep", 12)


def test_what_ddp_calls_is_told_from_the_flight_recorder() -> None:
    backward = ("/v/site-packages/torch/autograd/graph.py", 841, "_engine_run_backward"), ("/home/me/t.py", 3, "main")
    recorded = [replace(call(at), state="enqueued") for at in range(4)]
    waits = word(0, [], native=tuple(recorded), threads=main_thread(*backward))
    other = word(1, [], native=tuple(recorded[:3]), threads=SLEEP)
    report = analyse({0: waits, 1: other}, NOW)
    assert (report.state, report.culprits, report.kind) == ("hang", (1,), "sleep")


def test_a_call_of_the_script_and_one_of_ddp_are_compared_as_the_flight_recorder_counts_them() -> None:
    backward = ("/v/site-packages/torch/autograd/graph.py", 841, "_engine_run_backward"), ("/home/me/t.py", 3, "main")
    recorded = [replace(call(at), state="enqueued", file="", line=0) for at in range(40, 44)]
    ddp = word(0, [call(0, ended_at=1.0)], native=tuple(recorded), threads=main_thread(*backward))
    barrier = replace(recorded[-1], operation="barrier", sizes=())
    script = word(1, [call(0, ended_at=1.0), call(1, "barrier", 30)], native=(*recorded[:-1], barrier))
    report = analyse({0: ddp, 1: script}, NOW)
    assert report.state == "hang"
    assert report.kind == "mismatch"
    assert {one.number for one in report.waiting} == {43}


def test_a_rank_that_never_said_a_word_is_missing() -> None:
    report = analyse({0: WAITS}, NOW)
    assert (report.culprits, report.kind) == ((1,), "silent")


def test_ranks_that_go_on_are_no_hang() -> None:
    words = {rank: word(rank, calls(), stalled_s=0.1) for rank in range(2)}
    assert analyse(words, NOW).state == "none"


def test_many_ranks_are_named_by_ranges() -> None:
    assert several([3]) == "rank 3"
    assert several([0, 1, 2, 3, 7, 8]) == "ranks 0-3, 7 and 8"


def test_a_word_survives_json() -> None:
    said = word(1, [*calls(), call(9)], threads=SLEEP, children=("one",), report={"state": "hang"})
    assert LastWord.decode(said.encode()) == said


STEPS = 12


def steps(*, without: tuple[int, ...] = (), begun: int = 0, count: int = STEPS) -> list[CollectiveCall]:
    """Calls of whole steps, without those of these places, and so many of the next step."""
    made = [(at // len(STEP), *STEP[at % len(STEP)]) for at in range(count * len(STEP) + begun) if at not in without]
    return [call(at, *line, step=step, ended_at=NOW - 1) for at, (step, *line) in enumerate(made)]  # type: ignore[arg-type]


def failed(rank: int, made: list[CollectiveCall], error: str = "Connection closed by peer", **more: object) -> LastWord:
    ended = replace(made[-1], state="failed", ended_at=NOW)
    return word(rank, [*made[:-1], ended], phase="failed", error=error, **{"step": ended.step, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("end", ["fails", "waits"])
def test_the_rank_that_skipped_is_named_where_its_later_calls_met_those_of_another(end: str) -> None:
    """The last call of step 11 is left out by rank 1; rank 0 is in it, or the backend has ended its process there."""
    skipped = steps(without=(STEPS * len(STEP) - 1,), begun=1)
    one = (
        failed(1, skipped)
        if end == "fails"
        else word(1, [*skipped[:-1], replace(skipped[-1], state="called")], step=12)
    )
    told = steps(count=STEPS - 2)  # its last word is of two steps ago
    zero = word(0, told, step=STEPS - 2)
    dead = {0: Observed(DEAD), 1: Observed(ALIVE)}
    report = analyse({0: zero, 1: one}, NOW, dead, {0: "Aborted at /home/me/train.py, line 12"})
    assert (report.culprits, report.kind) == ((1,), "skipped")
    assert "rank 1 has skipped broadcast of world at train.py:12 in step 11, which it calls once" in report.words
    assert "same order" in report.advice


def test_the_rank_that_skipped_is_named_when_it_has_ended() -> None:
    waits = steps()
    report = analyse({0: failed(0, waits), 1: word(1, steps(without=(13,)), phase="finished", step=STEPS)}, NOW)
    assert (report.culprits, report.kind, report.state) == ((1,), "skipped", "failed")
    assert "all_reduce of world at train.py:11 in step 4" in report.words


def test_a_rank_that_ended_with_more_steps_has_skipped_what_no_wrapper_sees_and_one_with_as_many_has_not() -> None:
    native = tuple(replace(call(number, size=169), state="enqueued", file="", line=0) for number in range(60))
    zero = word(0, [], step=59, phase="failed", error="gloo: Connection closed by peer", native=native)
    ended = word(1, [], phase="finished", step=60)
    report = analyse({0: zero, 1: ended}, NOW)
    assert (report.culprits, report.kind) == ((1,), "skipped")
    assert "after 60 steps" in report.words
    assert analyse({0: zero, 1: replace(ended, step=59)}, NOW).kind == "finished"


def test_steps_that_others_make_alike_or_that_are_few_say_nothing() -> None:
    asleep = word(1, steps(without=(3,)), step=STEPS)
    assert left_out({0: word(0, steps(), step=STEPS), 1: asleep}, ["world"]) is not None
    assert left_out({0: word(0, steps(without=(3,)), step=STEPS), 1: asleep}, ["world"]) is None
    few = word(1, steps(without=(6,), count=5), step=5)
    assert left_out({0: word(0, steps(), step=STEPS), 1: few}, ["world"]) is None


def test_a_call_that_a_thread_makes_a_step_later_is_not_skipped() -> None:
    late = [replace(one, step=one.step + 1) if at == 14 else one for at, one in enumerate(steps())]
    asleep = word(1, late, step=STEPS, threads=SLEEP)
    waits = word(0, [*steps(), call(36)], step=STEPS)
    assert analyse({0: waits, 1: asleep}, NOW).kind == "sleep"


def test_a_rank_whose_collective_failed_is_told_with_the_line_that_raised_it() -> None:
    native = (replace(call(5), state="enqueued", file="", line=0),)
    line = main_thread(("/v/site-packages/torch/autograd/graph.py", 979, "_engine"), ("/home/me/train.py", 27, "main"))
    zero = word(0, [], phase="failed", error="gloo: Connection closed by peer", native=native, threads=line)
    report = analyse({0: zero, 1: word(1, [], phase="finished", step=3)}, NOW)
    assert "rank 0 failed in all_reduce of world at train.py:27" in report.words


def test_a_group_is_named_as_people_know_it() -> None:
    assert group_words("world", (0, 1)) == "world"
    assert group_words("ranks-0-1#3", (0, 1)) == "the group of ranks 0 and 1"
    assert group_words("tp#3", (4, 5, 6, 7)) == "tp (ranks 4-7)"
    assert group_words("dp#1", tuple(range(0, 64, 8))) == "dp (8 ranks, 0 to 56)"
    assert group_words("world:0->1", (0, 1)) == "world:0->1"


def test_a_call_of_a_group_that_was_skipped_is_told_with_the_ranks_of_the_group() -> None:
    def of_pair(made: list[CollectiveCall]) -> list[CollectiveCall]:
        return [replace(one, group="ranks-0-1#1") if one.line == 11 else one for one in made]

    groups = {"world": (0, 1), "ranks-0-1#1": (0, 1)}
    waits = replace(steps(begun=2)[-1], state="called", step=STEPS)
    zero = word(0, of_pair([*steps(), waits]), step=STEPS, groups=groups)
    asleep = word(1, of_pair(steps(without=(34,))), step=STEPS, groups=groups, threads=SLEEP)
    report = analyse({0: zero, 1: asleep}, NOW)
    assert report.culprits == (1,)
    assert "rank 1 has skipped all_reduce of the group of ranks 0 and 1 at train.py:11 in step 11" in report.words
    assert "rank 0 waits in all_reduce of the group of ranks 0 and 1" in report.words


def test_who_was_not_in_the_collective_is_named_where_the_launcher_ended_the_others_at_once() -> None:
    """The backend ends rank 0 inside a collective; the job is ended before anybody says a word."""
    notes = {0: "Aborted at /home/me/train.py, line 12", 1: "SIGTERM at /home/me/train.py, line 27"}
    words = {rank: word(rank, steps(), 3, step=STEPS, stalled_s=0.0) for rank in range(3)}
    dead = dict.fromkeys(words, Observed(DEAD))
    report = analyse(words, NOW, dead, {**notes, 2: "SIGTERM at /home/me/train.py, line 12"})
    assert (report.culprits, report.state) == ((1,), "failed")
    assert "rank 1 was at train.py:27 when the job was ended (SIGTERM)" in report.words
    assert "ranks 0 and 2 failed in broadcast of world at train.py:12" in report.words
    asked = {rank: f"SIGTERM at /home/me/train.py, line {12 + rank}" for rank in words}
    assert analyse(words, NOW, dead, asked).state == "none"  # somebody ended a healthy job


def test_a_rank_that_was_killed_and_one_that_is_stopped_are_both_told() -> None:
    words = {0: word(0, [*calls(), call(9)], 3), 1: word(1, calls(), 3), 2: word(2, calls(), 3)}
    stopped = ProcessState(is_alive=True, letter="T")
    report = analyse(words, NOW, {0: Observed(ALIVE), 1: Observed(stopped), 2: Observed(DEAD)})
    assert (report.culprits, report.kind) == ((2,), "dead")
    assert "rank 2 is gone in step 3" in report.words
    assert "rank 1 is stopped" in report.words


def test_a_stored_report_of_a_stopped_rank_says_when_it_is_gone(tmp_path: Path) -> None:
    stopped = {**HangReport("hang", "rank 1 is stopped", "stopped", (1,)).data()}
    with open_store(str(tmp_path)) as store:
        writer = store.begin_run("pair", rank=0)
        place = FolderWords(tmp_path, writer.run.id)
        place.write(0, word(0, calls(), report=stopped).encode())
        gone = to_json({**from_json(identity()), "started": "never"})
        place.write(1, word(1, calls(), writer=gone).encode())
        place.close()
        writer.close("failed", "RuntimeError: x")
        report, _ = hang_of_run(store, writer.run.id)
    assert report.words == "rank 1 is gone now. Before: rank 1 is stopped"


IN_DDP = ("/v/site-packages/torch/autograd/graph.py", 979, "_engine_run_backward"), ("/home/me/t.py", 31, "main")


def taken(*more: tuple[int, int], usual: int = 1) -> tuple[PassUse, ...]:
    return (PassUse("batch", "/home/me/t.py", 20, usual, more),)


def in_ddp(rank: int, size: int, **more: object) -> LastWord:
    """A rank that waits in the call 3 of the world, which DDP makes."""
    recorded = tuple(replace(call(at), state="enqueued", file="", line=0) for at in range(4))
    fields = {"native": recorded, "threads": main_thread(*IN_DDP), "passes": taken(), **more}
    return word(rank, [], size, **fields)


@pytest.mark.parametrize("size", [2, 4])
def test_who_left_a_step_out_is_named_where_others_wait_in_what_ddp_calls(size: int) -> None:
    barrier = call(0, "barrier", 40)
    before = [replace(call(at), state="enqueued", began_at=NOW - 50, file="", line=0) for at in range(3)]
    recorded = (*before, replace(barrier, number=3, state="enqueued", file="", line=0))
    ahead = word(1, [barrier], size, native=recorded, passes=taken((2, 2)))
    words = {rank: in_ddp(rank, size) for rank in range(size)} | {1: ahead}
    report = analyse(words, NOW)
    assert (report.state, report.culprits, report.kind) == ("hang", (1,), "skipped")
    assert "rank 1 has left a step out: in step 2 it took 2 batches at t.py:20" in report.words
    assert "In step 3, rank" in report.words
    assert "all_reduce of world at t.py:31" in report.words
    assert "rank 1 waits in barrier of world at train.py:40" in report.words


def test_who_left_a_step_out_is_named_after_it_has_ended() -> None:
    ended = word(1, [], phase="finished", passes=taken((1, 2)), threads=main_thread(("/home/me/t.py", 41, "main")))
    report = analyse({0: in_ddp(0, 2), 1: ended}, NOW)
    assert (report.culprits, report.kind) == ((1,), "skipped")
    assert "it has ended its training in step 3, at t.py:41" in report.words


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(taken((2, 2)), taken((2, 2))), (taken((2, 2)), taken(usual=2)), (taken((2, 2), usual=0), taken()), ((), taken())],
    ids=["both took more", "others take more always", "no usual number", "nothing is known"],
)
def test_batches_that_prove_no_step_left_out_are_not_told(
    ours: tuple[PassUse, ...], theirs: tuple[PassUse, ...]
) -> None:
    ended = word(1, [], phase="finished", passes=ours)
    report = analyse({0: in_ddp(0, 2, passes=theirs), 1: ended}, NOW)
    assert (report.culprits, report.kind) == ((1,), "finished")


def test_a_slow_rank_that_left_a_step_out_long_ago_is_still_told_as_slow() -> None:
    works = word(1, [], passes=taken((1, 2)), processor=1.0, threads=main_thread(("/home/me/t.py", 50, "evaluate")))
    report = analyse({0: in_ddp(0, 2), 1: works}, NOW)
    assert (report.state, report.kind) == ("slow", "user_code")


def test_a_process_that_was_ended_in_a_call_where_ddp_waits_differs_from_the_others() -> None:
    recorded = tuple(replace(call(at), state="enqueued", file="", line=0) for at in range(4))
    error = "RuntimeError: gloo: Connection closed by peer"
    words = {rank: word(rank, [], 4, native=recorded, phase="failed", error=error) for rank in (0, 2)}
    words |= {rank: word(rank, [], 4) for rank in (1, 3)}
    notes = {1: "Aborted in all_reduce at /home/me/t.py, line 38", 3: "SIGTERM in backward at /home/me/t.py, line 31"}
    report = analyse(words, NOW, {rank: Observed(DEAD) for rank in words}, notes)
    assert (report.state, report.culprits) == ("failed", (1,))
    assert "calls all_reduce at t.py:38" in report.words
    assert "the all_reduce that torch calls itself (as DDP does)" in report.words
