"""Sends and receives that do not meet: who waits for whom, and which rank has sent nothing, elsewhere or otherwise."""

from collections.abc import Iterable, Sequence

import pytest
from mindscope.insight.hangs.analysis import analyse
from mindscope.insight.hangs.hang_report import HangReport, call_words
from mindscope.storage.last_words import CollectiveCall
from mindscope.storage.transfers import Transfer, offset_of, transfer_of, transfer_site

from .words import NOW, call, main_thread, word

#: What each stage calls in a step, as (operation, peer): activations go up, gradients down.
STAGES = {
    0: (("send", 1), ("recv", 1)),
    1: (("recv", 0), ("send", 2), ("recv", 2), ("send", 0)),
    2: (("recv", 1), ("send", 1)),
    3: (),
}
LINES = {"send": 30, "recv": 40}


def made(rank: int, steps: Iterable[Sequence[tuple[str, int] | tuple[str, int, int]]]) -> list[CollectiveCall]:
    """The calls of a rank; the last one of all is still open."""
    found: list[CollectiveCall] = []
    counts: dict[str, int] = {}
    for step, of_step in enumerate(steps):
        for operation, peer, *tag in of_step:
            ends = (rank, peer) if operation == "send" else (peer, rank)
            group = Transfer("world", *ends, *tag).name
            number = counts[group] = counts.get(group, -1) + 1
            line = LINES[operation] + peer
            found.append(call(number, operation, line, group=group, step=step, ended_at=NOW - 13))
    last = found[-1]
    found[-1] = call(last.number, last.operation, last.line, group=last.group, step=last.step)
    return found


def report(steps: int, **last: Sequence[tuple[str, int] | tuple[str, int, int]]) -> HangReport:
    """What is said where each stage does `last` behind so many usual steps."""
    calls = {rank: made(rank, [*[STAGES[rank]] * steps, last[f"rank{rank}"]]) for rank in range(len(last))}
    return analyse({rank: word(rank, own, len(last), step=steps) for rank, own in calls.items()}, NOW)


def test_a_send_that_was_left_out_is_told_with_both_ranks_and_what_the_culprit_does_instead() -> None:
    found = report(8, rank0=STAGES[0], rank1=[("recv", 0), ("recv", 2)], rank2=[("recv", 1)])
    assert (found.state, found.kind, found.culprits) == ("hang", "skipped", (1,))
    assert (
        "rank 1 has skipped send to rank 2 at train.py:32 in step 8, which it calls in every other step" in found.words
    )
    assert "it waits in recv from rank 2 at train.py:42" in found.words
    assert "rank 2 waits in recv from rank 1 at train.py:41" in found.words


@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        (("send", 0), "peer", "calls send to rank 0 at train.py:32 in step 8, not to rank 2 as in every other step"),
        (("send", 2, 7), "tag", "calls send to rank 2 (tag 7) at train.py:32 in step 8, not with tag 0"),
    ],
)
def test_a_send_that_went_elsewhere_is_told_by_what_its_line_usually_does(
    wrong: tuple[str, int], kind: str, words: str
) -> None:
    steps = [*[STAGES[1]] * 8, [("recv", 0), wrong]]
    calls = made(1, steps)
    calls[-1] = call(calls[-1].number, "send", 32, group=calls[-1].group, step=8)
    words_of = {0: made(0, [*[STAGES[0]] * 8, STAGES[0]]), 1: calls, 2: made(2, [*[STAGES[2]] * 8, [("recv", 1)]])}
    found = analyse({rank: word(rank, own, 3, step=8) for rank, own in words_of.items()}, NOW)
    assert (found.state, found.kind, found.culprits) == ("hang", kind, (1,))
    assert words in found.words
    assert "rank 2 waits in recv from rank 1" in found.words


def test_two_tags_without_steps_to_compare_with_name_both_ends() -> None:
    found = report(0, rank0=[("send", 1, 3)], rank1=[("recv", 0, 4)])
    assert (found.kind, found.culprits) == ("tag", (0, 1))
    assert "rank 0 calls send to rank 1 (tag 3) at train.py:31, while the other end calls recv from rank 0 (tag 4)" in (
        found.words
    )
    assert "tag" in found.advice


def test_a_send_to_the_wrong_stage_in_the_first_step_is_named() -> None:
    found = report(0, rank0=STAGES[0], rank1=[("recv", 0), ("send", 3)], rank2=[("recv", 1)], rank3=[("recv", 2)])
    assert (found.kind, found.culprits) == ("peer", (1,))
    assert "rank 1 calls send to rank 3 at train.py:33, which does not receive it, while another waits in recv" in (
        found.words
    )


def test_ranks_that_all_receive_first_are_a_deadlock() -> None:
    found = report(0, rank0=[("recv", 1)], rank1=[("recv", 0)])
    assert (found.kind, found.culprits) == ("deadlock", (0, 1))
    assert "one sends first" in found.advice
    later = report(8, rank0=STAGES[0], rank1=[("recv", 0), ("recv", 2)], rank2=[("recv", 1)])
    assert "or each of the two ranks receives before it sends" in later.words
    received = report(8, rank0=STAGES[0], rank1=[("recv", 0), ("recv", 2), ("recv", 0)], rank2=[("recv", 1)])
    assert received.kind == "skipped"
    assert "receives before" not in received.words


def test_stages_that_wait_for_one_that_works_are_no_hang() -> None:
    stages = {0: made(0, [STAGES[0]] * 9), 2: made(2, [*[STAGES[2]] * 8, [("recv", 1)]])}
    busy = made(1, [*[STAGES[1]] * 8, [("recv", 0)]])
    busy[-1] = call(busy[-1].number, "recv", busy[-1].line, group=busy[-1].group, step=8, ended_at=NOW - 11)
    words = {rank: word(rank, own, 3, step=8) for rank, own in stages.items()}
    words[1] = word(1, busy, 3, step=8, processor=0.9, threads=main_thread(("/home/me/train.py", 60, "forward")))
    found = analyse(words, NOW)
    assert (found.state, found.culprits) == ("slow", (1,))


def test_names_of_transfers_tell_their_ends() -> None:
    for transfer in (Transfer("world", 0, 1), Transfer("pp#3", 12, 4, 7), Transfer("world", -1, 2)):
        assert transfer_of(transfer.name) == transfer
    assert transfer_of("world") is None
    assert transfer_of("ranks-0-1#5") is None
    assert call_words("irecv", "pp#3:12->4 tag 7") == "irecv from rank 12 (tag 7) of pp"
    assert call_words("recv", "world:any->2") == "recv from any rank"
    assert call_words("all_reduce", "world") == "all_reduce of world"
    assert transfer_site("send", "world", 3, 2) == "send/world:-1"
    assert transfer_site("recv", "world", 3, None) == "recv/world"
    assert [offset_of(site) for site in ("irecv/pp:+8", "recv/world", "all_reduce/world")] == [8, None, None]
