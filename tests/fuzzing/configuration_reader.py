"""Fuzzes configurations: YAML and JSON, of mindscope and of msprobe, and control documents of a run."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import yaml
from mindscope.cli.configuration_commands import TEMPLATE
from mindscope.probe import Config, load_config
from mindscope.probe.configuration import config
from mindscope.storage.control_channel import FolderChannel

from tests.fuzzing.fuzz import Reader
from tests.fuzzing.mutations import WORDS, mutated, mutated_text

_MSPROBE = {
    "targets": {"fc": {"input": "tuple[2]:0", "output": "tensor"}},
    "format": "csv",
    "ops": ["norm", "min"],
    "wg_distribution": True,
    "start_step": 0,
    "collect_times": 10,
    "step_interval": 5,
    "cc_distribution": {"enable": True, "cc_codeline": []},
}


def _configurations(_folder: Path) -> list[bytes]:
    example = (config.__doc__ or "").partition("\n\n")[2]
    texts = [
        "every: 10\nsubjects: {weight: 5, gradient: {every: 2, start: 3}}\nmodules: ['decoder.*']\nkind: value\n",
        TEMPLATE,
        example,
        json.dumps(_MSPROBE),
        "subjects: {weight: &a {every: 2}, gradient: *a}\n",
    ]
    return [text.encode() for text in texts]


_KEYS = st.sampled_from([*Config.model_fields, "evry", "start_step", "targets", "level", "task"])
_SCALARS = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10), st.sampled_from(WORDS)),
    *(st.dates(), st.sampled_from(["3%", "1:10", "gradient/l2_norm @ fc.* > 10 for 3 steps", "nan @ *", "stop"])),
)
_NAMES = st.one_of(
    _KEYS, st.sampled_from(("every", "start", "stop", "when", "do", "url", "steps")), st.text(max_size=5)
)
_VALUES: st.SearchStrategy[Any] = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=4), max_leaves=12
)
_DOCUMENTS = st.dictionaries(_KEYS, _VALUES, min_size=1, max_size=5)


def _written(document: object) -> bytes:
    text = yaml.safe_dump(document, allow_unicode=True)
    return text.encode("utf-8", "surrogatepass")


def _nested(depth: int, opening: str) -> bytes:
    return b"every: " + opening.encode() * depth


def _alias_bomb(width: int, depth: int) -> bytes:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * width)}]" for at in range(1, depth)]
    return "\n".join(lines).encode()


_ODD = st.one_of(
    *(_DOCUMENTS.map(_written), _VALUES.map(_written), _DOCUMENTS.map(_written)),
    st.builds(_nested, st.integers(1, 4000), st.sampled_from(("[", "{a: ", "- ", "!!set {", "[[", "? "))),
    st.builds(_alias_bomb, st.integers(1, 10), st.integers(1, 30)),
    st.sampled_from(
        [b"every: 9" + b"9" * 5000, b"\xff\xfe", b"!!timestamp x", b"!!int ''", b"a: !!float ''", b"{1: 2}"]
    ),
)


def _mutated_configurations(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    if draw.random() < 0.2:
        return mutated(draw, seeds)
    return mutated_text(draw, draw.choice(seeds).decode()).encode("utf-8", "surrogatepass")


def _read(data: bytes, folder: Path) -> None:
    channel = FolderChannel(folder, "run")
    channel.post("settings", {"every": 2})
    (document,) = folder.iterdir()
    document.write_bytes(data)
    path = folder / ("monitor.json" if data[:1] in b"{[" and len(data) % 2 else "monitor.yaml")
    path.write_bytes(data)
    try:
        load_config(path)
    finally:
        channel.read("settings")


YAML = Reader("yaml", _configurations, _read, mutate=_mutated_configurations, odd=_ODD)
