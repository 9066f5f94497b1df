"""Traces are read whole or up to their damage, and what is no trace is an error with words."""

import gzip
import json

import pytest
from mindscope.insight.errors import UnreadableTrace
from mindscope.insight.traces import json_stream
from mindscope.insight.traces.trace_file import read_trace_file

from tests.insight.traces.kineto import document, kernel, launch, operation, write

EVENTS = (launch(0.0, 3), kernel("gemm", 10.0, 4.0, correlation=3, bytes=8), operation("aten::mm", -1.0, 20.0))


def test_events_come_by_start_with_their_arguments(tmp_path):
    (path,) = write(tmp_path, document(*EVENTS, rank=2, ranks=4, groups=[("0", "default_pg", [0, 1, 2, 3])]))
    found = read_trace_file(path)
    assert [found.names[number] for number in found.events["name"]] == ["aten::mm", "cudaLaunchKernel", "gemm"]
    assert found.events["correlation"].tolist() == [-1, 3, 3]
    assert (found.events["stream"][2], found.events["bytes"][2]) == (7, 8.0)
    assert (found.rank, found.world_size, found.host, found.devices) == (2, 4, "node", ("Device",))
    assert found.group_ranks == {"0": (0, 1, 2, 3)}
    assert found.notes == ()


def test_a_packed_file_a_bare_list_and_a_sliced_stream_hold_the_same(tmp_path, monkeypatch):
    (plain,) = write(tmp_path, document(*EVENTS))
    expected = read_trace_file(plain).events.tobytes()
    (packed,) = write(tmp_path, document(*EVENTS), packed=True)
    assert read_trace_file(packed).events.tobytes() == expected
    (tmp_path / "list.json").write_text(json.dumps(list(EVENTS)))
    assert read_trace_file(tmp_path / "list.json").events.tobytes() == expected
    monkeypatch.setattr(json_stream, "_CHUNK", 7)
    assert read_trace_file(plain).events.tobytes() == expected


@pytest.mark.parametrize("cut", [0.9, 0.97])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_a_file_that_is_cut_is_read_up_to_the_cut_and_says_so(tmp_path, cut, packed):
    events = [operation(f"aten::op{number}", 10.0 * number, 5.0) for number in range(2000)]
    (path,) = write(tmp_path, document(*events), packed=packed)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * cut)])
    found = read_trace_file(path)
    assert 1000 < len(found.events) < 2000
    assert f"the {len(found.events)} events before that are used" in found.notes[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "does not begin with an object"),
        (b"not json", "does not begin with an object"),
        (b"{}", "no complete event"),
        (b'{"traceEvents": 5}', "no complete event"),
        (b'{"traceEvents": [' + b"[" * 100_000, "too deep"),
        (b'{"a": ' + b'"x' * 10, "ends in the middle|delimiter|unterminated"),
        (gzip.compress(b'{"traceEvents": [', mtime=0)[:12], "compression"),
        (b"\x1f\x8bnothing", "compression is damaged"),
        (b'{"traceEvents": [{"ph": "X", "name": "a", "ts": "x", "dur": 1}]}', "no complete event"),
        (b'{"traceEvents": [{"ph": "X", "name": "a", "ts": ' + b"9" * 5000 + b', "dur": 1}]}', "no complete event"),
    ],
)
def test_what_is_no_trace_is_an_error_that_says_what_was_expected(tmp_path, content, words):
    (path := tmp_path / "trace.json").write_bytes(content)
    with pytest.raises(UnreadableTrace, match="export_chrome_trace") as raised:
        read_trace_file(path)
    assert any(word in str(raised.value) for word in words.split("|"))


def test_a_missing_file_and_a_folder_are_errors_with_words(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(UnreadableTrace, match="cannot be read"):
            read_trace_file(path)


def test_odd_events_are_left_out_and_counted(tmp_path):
    odd = [
        {"ph": "X"},
        7,
        operation("late", float("nan"), 1.0),
        operation("negative", 0.0, -1.0),
        operation([1], 0.0, 1.0),
        {"ph": "E", "pid": [1], "ts": 1},
        kernel("kept", 1.0, 1.0, correlation=2**70, bytes="many"),
    ]
    (path,) = write(tmp_path, document(*odd))
    found = read_trace_file(path)
    assert found.names[found.events["name"][0]] == "kept"
    assert (len(found.events), found.events["correlation"][0]) == (1, -1)
    assert "6 events without a name" in found.notes[0]
