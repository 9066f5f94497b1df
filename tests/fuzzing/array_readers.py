"""Fuzzes files of arrays: `.npz` as commands take it, checkpoints and stored tensors in safetensors."""

import io
import json
import random
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from mindscope.armour.fuzz.fuzzer import Corpus
from mindscope.cli.user_code import load_samples
from mindscope.framework.serialization import load_checkpoint, load_metadata, save_checkpoint
from mindscope.storage import Blobs

from tests.fuzzing.fuzz import Reader
from tests.fuzzing.mutations import mutated, mutated_text


def _arrays(_folder: Path) -> list[bytes]:
    found = []
    for save in (np.savez, np.savez_compressed):
        written = io.BytesIO()
        save(written, x=np.ones((4, 3), np.float32), y=np.arange(4), region=np.ones((4, 3), bool))
        found.append(written.getvalue())
    written = io.BytesIO()
    np.savez(written, inputs=np.ones((4, 3)), labels=np.arange(4), failed=np.zeros(4, bool), rounds=np.int64(2))
    return [*found, written.getvalue()]


def _mutated_arrays(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a file whose bytes, or one of whose arrays behind a right checksum, are mutated."""
    if draw.random() < 0.4:
        return mutated(draw, seeds)
    with zipfile.ZipFile(io.BytesIO(draw.choice(seeds))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = draw.choice(list(parts))
    parts[name] = _mutated_array(draw, parts[name], [*parts.values()])
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return written.getvalue()


def _mutated_array(draw: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    if draw.random() < 0.4:
        return mutated(draw, others)
    header = content[10 : 10 + int.from_bytes(content[8:10], "little")].decode("latin-1")
    data = content[10 + len(header) :]
    shape = draw.choice(("(4,)", "()", "(0,)", "(-1, 2)", "(99999999999, 3)", "(4, 3)", "(1, 1, 1, 1)", "(2.5,)"))
    kind = draw.choice(("'<f4'", "'|O'", "'<U4'", "'<M8[s]'", "'|V3'", "'<c16'", "[('a', '<f4')]", "'|b1'", "None"))
    odd = f"{{'descr': {kind}, 'fortran_order': {draw.choice(('False', 'True', '3'))}, 'shape': {shape}, }}\n"
    header = odd if draw.random() < 0.5 else mutated_text(draw, header)
    encoded = header.encode("utf-8", "surrogatepass")[:60000]
    return content[:8] + len(encoded).to_bytes(2, "little") + encoded + data


def _read_arrays(data: bytes, folder: Path) -> None:
    path = folder / "data.npz"
    path.write_bytes(data)
    if b"inputs.npy" in data:
        Corpus.load(path)
    else:
        load_samples(str(path))


def _checkpoints(folder: Path) -> list[bytes]:
    path = folder / "saved.safetensors"
    arrays = {"fc.weight": np.ones((2, 3), np.float32), "fc.bias": np.zeros(2), "count": np.int64(3)}
    save_checkpoint(arrays, path, metadata={"epoch": 3, "slots": ["a", None]})
    blobs = Blobs(folder / "tensors")
    digest = blobs.put(np.ones((2, 2), np.float32)).digest
    return [path.read_bytes(), (folder / "tensors" / digest[:2] / f"{digest}.safetensors").read_bytes()]


def _mutated_checkpoints(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a file whose bytes, or whose header behind a right length, are mutated."""
    if draw.random() < 0.4:
        return mutated(draw, seeds)
    content = draw.choice(seeds)
    length = int.from_bytes(content[:8], "little")
    header, data = content[8 : 8 + length].decode(), content[8 + length :]
    if draw.random() < 0.5:
        described = json.loads(header)
        name = draw.choice(list(described))
        if name == "__metadata__":
            described[name] = {
                "mindscope": draw.choice(("", "[", "[" * 5000, "null", "3", '"x"', '{"a": 1e999}', "[1]"))
            }
        else:
            described[name][draw.choice(("dtype", "shape", "data_offsets"))] = draw.choice(
                ("F8_E4M3", "BF16", "F4", "C64", "I64", [], [6], [0], [-1], [2**63], [0, 24], [0, 0], [24, 0], "F64")
            )
        header = json.dumps(described)
    else:
        header = mutated_text(draw, header)
    encoded = header.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(8, "little") + encoded + data


def _read_checkpoint(data: bytes, folder: Path) -> None:
    """Read the data as a checkpoint, and as a stored tensor where it has no metadata."""
    if b"__metadata__" in data[:4096]:
        path = folder / "saved.safetensors"
        path.write_bytes(data)
        load_checkpoint(path)
        load_metadata(path)
        return
    digest = Blobs(folder / "valid").put(np.ones((2, 2), np.float32)).digest  # that of the unchanged data
    path = folder / "changed" / digest[:2] / f"{digest}.safetensors"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    Blobs(folder / "changed").get(digest)


NPZ = Reader("npz", _arrays, _read_arrays, mutate=_mutated_arrays)
SAFETENSORS = Reader("safetensors", _checkpoints, _read_checkpoint, mutate=_mutated_checkpoints)
