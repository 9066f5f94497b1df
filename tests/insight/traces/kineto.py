"""Small traces in the form of torch.profiler, event by event; times in microseconds."""

import gzip
import json
from pathlib import Path


def operation(name, start, duration, *, thread=1, category="cpu_op", **arguments):
    return {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": duration,
        "args": arguments,
    }  # fmt: skip


def kernel(name, start, duration, *, stream=7, correlation=0, category="kernel", **arguments):
    arguments |= {"device": 0, "stream": stream, "correlation": correlation}
    return {
        "ph": "X", "cat": category, "name": name, "pid": 0, "tid": stream, "ts": start, "dur": duration,
        "args": arguments,
    }  # fmt: skip


def launch(start, correlation, duration=5.0):
    return operation("cudaLaunchKernel", start, duration, category="cuda_runtime", correlation=correlation)


def note(name, start, duration, *, thread=1):
    return operation(name, start, duration, thread=thread, category="user_annotation")


def document(*events, rank=0, ranks=1, host="node", base=1_700_000_000_000_000_000, groups=()):
    listed = [{"pg_name": name, "pg_desc": words, "ranks": members} for name, words, members in groups]
    return {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": ranks, "pg_config": listed},
        "deviceProperties": [{"id": 0, "name": "Device"}],
        "host_name": host,
        "baseTimeNanoseconds": base,
        "traceEvents": list(events),
    }


def write(folder, *documents, packed=False):
    paths = []
    for number, made in enumerate(documents):
        path = Path(folder) / f"rank{number}.json{'.gz' * packed}"
        text = json.dumps(made).encode()
        path.write_bytes(gzip.compress(text) if packed else text)
        paths.append(path)
    return paths
