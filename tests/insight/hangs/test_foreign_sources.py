"""Dumps of PyTorch's Flight Recorder and the output of NCCL's RAS and Inspector name the culprit by themselves."""

import json
import pickle
from pathlib import Path

import pytest
from mindscope.insight.errors import UnreadableDump
from mindscope.insight.hangs.foreign_sources import hang_of_files

#: Dumps of two ranks that PyTorch 2.13 has made over gloo; rank 1 has not called the last barrier.
DUMPS = [Path(__file__).parent / "data" / f"trace_rank_{rank}" for rank in range(2)]

RAS = """
Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  MISMATCH

Warnings
========

#0-0 (78db921d1c117b4a) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 64
  Rank 6 has launched up to operation 60 -- GPU 3 managed by process 1650386 on node node1
"""
DEAD = """
Communicators... (2.05s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4       7-8        32        32   RUNNING  INCOMPLETE

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 21
"""


def test_a_rank_that_is_missing_from_a_barrier_is_named_from_two_dumps() -> None:
    report = hang_of_files(DUMPS)
    assert report.state == "hang"
    assert report.culprits == (1,)
    assert "rank 0 waits in barrier of world at train.py:" in report.words
    assert "rank 1 has not called it; its last collective was all_reduce" in report.words


def test_a_rank_without_a_dump_is_missing() -> None:
    report = hang_of_files(DUMPS[:1])
    assert report.culprits == (1,)


def test_a_shape_that_differs_is_read_from_dumps_as_pickle_and_as_json(tmp_path: Path) -> None:
    paths = []
    for rank in range(3):
        dump = pickle.loads(DUMPS[0].read_bytes())
        dump["pg_config"][""]["ranks"] = "[0, 1, 2]"
        for entry in dump["entries"][:-2]:
            entry["state"] = "completed"
        dump["entries"][-1]["state"] = "scheduled"
        dump["entries"][-2] |= {"state": "started", "input_sizes": [[20 + (rank == 2)]]}
        path = tmp_path / f"nccl_trace_rank_{rank}"
        if rank == 1:
            path = path.with_suffix(".json")
            path.write_text(json.dumps(dump))
        else:
            path.write_bytes(pickle.dumps(dump, protocol=2))
        paths.append(path)
    report = hang_of_files(paths)
    assert (report.culprits, report.kind) == ((2,), "shape")
    assert "with 21, the others with 20" in report.words


def test_a_pickle_that_wants_to_make_an_object_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace_rank_0"
    path.write_bytes(pickle.dumps(Path("x")))
    with pytest.raises(UnreadableDump, match="has no need of"):
        hang_of_files([path])


def test_ras_names_who_has_launched_fewer_operations(tmp_path: Path) -> None:
    path = tmp_path / "ras.txt"
    path.write_text(RAS)
    report = hang_of_files([path])
    assert report.culprits == (6,)
    assert len(report.waiting) == 7
    assert "AllReduce" in report.words


def test_ras_names_a_process_that_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "ras.txt"
    path.write_text(DEAD)
    report = hang_of_files([path])
    assert (report.culprits, report.kind) == ((21,), "dead")


def test_the_json_of_ras_has_counts_and_missing_ranks(tmp_path: Path) -> None:
    ranks = [{"rank": rank, "host": "n", "pid": 1, "collective_counts": {"AllReduce": 9}} for rank in range(3)]
    missing = [{"rank": 3, "host": "n", "pid": 2, "status": {"unresponsive": True, "considered_dead": True}}]
    document = {"communicators": [{"hash": "0x1", "size": 4, "ranks": ranks, "missing_ranks": missing}]}
    path = tmp_path / "ras.json"
    path.write_text(json.dumps(document))
    assert hang_of_files([path]).culprits == (3,)
    ranks[1]["collective_counts"] = {"AllReduce": 7}
    path.write_text(json.dumps({"communicators": [{"hash": "0x1", "size": 3, "ranks": ranks, "missing_ranks": []}]}))
    assert hang_of_files([path]).culprits == (1,)


def test_the_inspector_tells_whose_last_collective_is_older(tmp_path: Path) -> None:
    lines = [
        {
            "header": {"id": "0x7f", "rank": rank, "n_ranks": 2, "nnodes": 1},
            "metadata": {"dump_timestamp_us": 1748030377748202 + number, "hostname": "n", "pid": 1},
            "coll_perf": {"coll": "AllReduce", "coll_sn": number, "coll_exec_time_us": 61},
        }
        for rank, last in ((0, 8), (1, 5))
        for number in range(last)
    ]
    path = tmp_path / "inspector.log"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    assert hang_of_files([path]).culprits == (1,)


@pytest.mark.parametrize("content", [b"", b"hello", b"[1]", b'{"a": 1}', b"\x80\x02}q\x00.", b'{"entries": [1]}'])
def test_another_file_is_an_error_that_names_the_formats(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(UnreadableDump, match="Flight Recorder"):
        hang_of_files([path])
