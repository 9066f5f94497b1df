"""Events that begin and end apart (ph B and E) are read as complete events, and none is lost without a word."""

import json
import math
import os

import hypothesis.strategies as st
import pytest
from hypothesis import given
from mindscope.insight.errors import UnreadableTrace
from mindscope.insight.trace_report import render_trace, trace_report
from mindscope.insight.traces import begin_end_pairs, read_traces
from mindscope.insight.traces.trace_file import EVENT, read_trace_file

from tests.insight.traces.kineto import document, operation, write


def begin(name, at, *, thread=1, process=1, **arguments):
    return {"ph": "B", "cat": "cpu_op", "name": name, "pid": process, "tid": thread, "ts": at, "args": arguments}


def end(at, *, thread=1, process=1, **more):
    return {"ph": "E", "pid": process, "tid": thread, "ts": at, **more}


def read(folder, *events):
    (path,) = write(folder, document(*events))
    return read_trace_file(path)


def spans(found):
    """Name, start and duration of each event, in the order of the file read."""
    events = found.events
    return [
        (found.names[name], start, duration)
        for name, start, duration in zip(events["name"], events["start"], events["duration"], strict=True)
    ]


def test_an_end_closes_the_latest_begin_of_its_thread(tmp_path):
    found = read(tmp_path, begin("a", 0), begin("b", 1), end(4), begin("c", 5), end(6), end(9))
    assert spans(found) == [("a", 0, 9), ("b", 1, 3), ("c", 5, 1)]
    assert found.notes == ()


def test_threads_and_processes_have_begins_of_their_own(tmp_path):
    starts = [begin("main", 0), begin("other thread", 1, thread=2), begin("other process", 2, process=2)]
    found = read(tmp_path, *starts, end(10), end(20, thread=2), end(30, process=2))
    assert spans(found) == [("main", 0, 10), ("other thread", 1, 19), ("other process", 2, 28)]
    assert len(set(found.events["lane"].tolist())) == 3


def test_the_arguments_of_begin_and_end_are_joined_and_those_of_the_end_count(tmp_path):
    first = begin("copy", 0, stream=7, device=0, bytes=1)
    found = read(tmp_path, first, end(1, args={"bytes": 8, "correlation": 5}), begin("x", 2, stream=3), end(3, args=4))
    assert found.events[["stream", "bytes", "correlation"]][0].item() == (7, 8.0, 5)
    assert found.events["stream"][1] == 3


def test_of_two_events_with_the_same_times_the_one_that_begins_first_is_the_outer_one(tmp_path):
    found = read(tmp_path, begin("outer", 0), begin("inner", 0), end(5), end(5), operation("complete", 0, 5))
    assert [name for name, *_ in spans(found)] == ["outer", "inner", "complete"]


def test_what_has_no_partner_is_left_out_and_counted(tmp_path):
    events = [end(0), begin("killed step", 1), begin("done", 2), end(3), end(4, thread=2), begin("late", 5, thread=3)]
    found = read(tmp_path, *events)
    assert spans(found) == [("done", 2, 1)]
    assert found.notes == (
        "2 begin events (ph B) have no end (ph E) and are left out, the first of them 'killed step'",
        "2 end events (ph E) have no begin (ph B) and are left out",
    )
    (path,) = write(tmp_path, document(*events))
    assert "'killed step'" in render_trace(trace_report(read_traces([path])))


def test_an_end_that_names_another_event_is_told(tmp_path):
    found = read(tmp_path, begin("a", 0), end(1, name="a"), begin("b", 2), end(3, name="c"))
    assert spans(found) == [("a", 0, 1), ("b", 2, 1)]
    assert found.notes[0].startswith("1 end events (ph E) have another name")


def test_an_end_before_its_begin_and_a_time_that_is_none_are_counted(tmp_path):
    bad = [begin("a", 5), end(1), begin("b", "soon"), end(2), begin("c", 3), {"ph": "E", "pid": 1, "tid": 1}]
    found = read(tmp_path, operation("kept", 0, 1), *bad)
    assert spans(found) == [("kept", 0, 1)]
    assert found.notes[0].startswith("3 events without a name")


def test_a_trace_of_begins_alone_is_an_error_that_says_so(tmp_path):
    with pytest.raises(UnreadableTrace, match=r"1 begin events .* have no end .* 'alone'.*export_chrome_trace"):
        read(tmp_path, begin("alone", 0))


def test_a_file_that_is_cut_tells_which_event_it_leaves_open(tmp_path):
    (path,) = write(tmp_path, document(begin("outer", 0), begin("inner", 1), end(2), end(3)))
    path.write_text(path.read_text()[:-30])
    found = read_trace_file(path)
    assert spans(found) == [("inner", 1, 1)]
    assert "the first of them 'outer'" in found.notes[0]
    assert "the 1 events before that are used" in found.notes[1]


def test_begins_beyond_what_is_kept_take_their_ends_with_them(tmp_path, monkeypatch):
    monkeypatch.setattr(begin_end_pairs, "_MOST_OPEN", 2)
    starts, ends = [begin(f"level {level}", level) for level in range(4)], [end(at) for at in (6, 7, 8, 9)]
    found = read(tmp_path, *starts, *ends)
    assert spans(found) == [("level 0", 0, 9), ("level 1", 1, 7)]
    assert found.notes == ("2 events are left out that began while 2 others were open",)


_TREES = st.recursive(
    st.just(()), lambda children: st.lists(st.tuples(st.sampled_from("abc"), children), max_size=3), max_leaves=12
)


def _walk(tree, thread, clock, step):
    """Return the complete events of a tree of calls, outer first, and the same calls as begins and ends."""
    complete, parts = [], []
    for number, (name, inner) in enumerate(tree):
        at, arguments = clock, {"stream": number, "bytes": clock}
        in_complete, in_parts, clock = _walk(inner, thread, clock + step, step)
        clock += step
        complete += [operation(name, at, clock - at, thread=thread, **arguments), *in_complete]
        first = begin(name, at, thread=thread, stream=-1, bytes=arguments["bytes"])
        parts += [first, *in_parts, end(clock, thread=thread, args={"stream": number})]
    return complete, parts, clock


def _content(path):
    """What a file holds of each event, in words; the numbers of tables and lanes depend on what comes first."""
    found = read_trace_file(path)
    tables = {"name": found.names, "category": found.categories}
    rows = [dict(zip(EVENT.names, row, strict=True)) for row in found.events.tolist()]
    threads = {}
    return found.notes, [
        tuple(
            threads.setdefault(value, len(threads)) if key == "lane"
            else tables[key][value] if key in tables
            else str(value) if isinstance(value, float) and math.isnan(value)
            else value
            for key, value in row.items()
        )
        for row in rows
    ]  # fmt: skip


def test_a_file_that_was_read_is_closed_at_once(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps([{"ph": "X", "name": "a", "ts": 0, "dur": 1, "pid": 1, "tid": 1}]))
    _content(path)
    links = [os.readlink(link) for link in os.scandir("/proc/self/fd") if os.path.lexists(link)]
    assert str(path) not in links


@given(trees=st.lists(_TREES, min_size=1, max_size=3), step=st.sampled_from([0, 0.25, 1]), data=st.data())
def test_complete_events_and_their_begins_and_ends_give_the_same(tmp_path_factory, trees, step, data):
    walks = [_walk(tree, thread, 100 * thread, step) for thread, tree in enumerate(trees)]
    complete = [event for events, _, _ in walks for event in events]
    if not complete:
        return
    queues, mixed = [list(parts) for _, parts, _ in walks if parts], []
    while queues:  # threads write in any order, each its own events in order
        queue = data.draw(st.sampled_from(queues))
        mixed.append(queue.pop(0))
        queues = [left for left in queues if left]
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "complete.json").write_text(json.dumps(complete))
    (folder / "parts.json").write_text(json.dumps(mixed))
    assert _content(folder / "parts.json") == _content(folder / "complete.json")
