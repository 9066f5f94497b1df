"""Fuzzes `mindscope trace`: traces in Chrome's format with odd words and numbers, cut, doubled and packed."""

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path

import hypothesis.strategies as st
from mindscope.insight.trace_report import render_trace, trace_report
from mindscope.insight.traces import read_traces

from benchmarks.traced_jobs import Job, write_traces
from tests.fuzzing.fuzz import Reader
from tests.fuzzing.mutations import WORDS, mutated, mutated_texts

_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(WORDS), st.lists(st.integers(), max_size=3)
)
_TIMES = st.one_of(st.floats(0.0, 1e3), st.integers(0, 1000), _VALUES)
_NAMES = st.one_of(
    st.sampled_from(
        [
            *("aten::mm", "aten::embedding", "c10d::send", "gloo:all_reduce", "ncclDevKernel_AllReduce", "Memcpy DtoD"),
            *("ProfilerStep#1", "cudaLaunchKernel", "cudaDeviceSynchronize", "Optimizer.step#SGD.step", "Python GC"),
            "enumerate(DataLoader)#x",
        ]
    ),
    _VALUES,
)
_CATEGORIES = st.sampled_from(["cpu_op", "cuda_runtime", "kernel", "gpu_memcpy", "user_annotation", "python_function"])
_ARGUMENTS = st.dictionaries(
    st.sampled_from(
        [
            *("stream", "device", "correlation", "bytes", "Input Dims", "Concrete Inputs", "Collective name"),
            *("Src Rank", "Dst Rank", "Process Group Name", "Process Group Ranks", "In msg nelems"),
            "memory bandwidth (GB/s)",
        ]
    ),
    st.one_of(_VALUES, st.integers(0, 3)),
    max_size=6,
)
_EVENTS = st.fixed_dictionaries(
    {"ph": st.sampled_from(["X", "X", "X", "M", "B", "E"]), "name": _NAMES, "ts": _TIMES, "dur": _TIMES},
    optional={
        "cat": _CATEGORIES | _VALUES,
        "args": _ARGUMENTS | _VALUES,
        "pid": _VALUES,
        "tid": st.integers(0, 2) | _VALUES,
    },
)
_DOCUMENTS = st.fixed_dictionaries(
    {"traceEvents": st.lists(_EVENTS, max_size=12) | _VALUES},
    optional={
        "distributedInfo": st.fixed_dictionaries(
            {}, optional={"rank": _VALUES, "world_size": _VALUES, "pg_config": _VALUES}
        )
        | _VALUES,
        "deviceProperties": _VALUES,
        "baseTimeNanoseconds": _VALUES,
        "host_name": _VALUES,
    },
)


def _written(folder: Path) -> list[bytes]:
    made = []
    for has_device in (False, True):
        for path in write_traces(Job("slow rank", ranks=1, steps=2, layers=2, has_device=has_device), folder):
            made += [path.read_bytes()]
    return [*made, gzip.compress(made[0])]


def _mutated(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a mutated trace: as text, as bytes, or as what is packed."""
    if draw.random() < 0.2:
        return mutated(draw, seeds)
    data = mutated_texts(draw, seeds[:2])
    return gzip.compress(data, 1) if draw.random() < 0.1 else data


def _read(data: bytes, folder: Path) -> None:
    path = folder / "rank0.json"
    path.write_bytes(data)
    render_trace(trace_report(read_traces([path]))).encode()
    (folder / "rank1.json").write_bytes(data)
    render_trace(trace_report(read_traces([folder]))).encode()


TRACE = Reader("trace", _written, _read, mutate=_mutated, odd=_DOCUMENTS.map(lambda made: json.dumps(made).encode()))
