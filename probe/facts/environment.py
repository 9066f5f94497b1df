"""Where a run takes place: script, arguments, commit, versions, devices, variables, state of random generators."""

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from ...storage.records import Json

#: Variables with these prefixes change what a training computes, or how fast.
_PREFIXES: Final = (
    "CUBLAS_", "CUDA_", "CUDNN_", "DNNL_", "GLOO_", "GOMP_", "HF_", "JAX_", "KMP_", "MASTER_", "MINDSCOPE_", "MKL_",
    "NCCL_", "NUMBA_", "NUMEXPR_", "NVIDIA_", "OMP_", "ONEDNN_", "OPENBLAS_", "PYTORCH_", "SLURM_JOB_", "TF_",
    "TORCH", "TRITON_", "XLA_",
)  # fmt: skip
_NAMES: Final = frozenset({"PYTHONHASHSEED", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK"})
#: Words in names of variables whose values are secret.
_SECRET: Final = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "KEY", "AUTH", "COOKIE", "DATABASE", "STORE")
_LONGEST = 200
#: How long git may take to compare the working tree with its commit; our choice: short beside the start of a training.
_GIT_TIMEOUT_S = 2.0


def environment() -> dict[str, Json]:
    """Collect what a later run can be compared with: script, arguments, git, packages, variables, devices."""
    script = _script()
    found: dict[str, Json] = {"packages": dict(_packages()), "variables": dict(_variables()), "devices": _devices()}
    if script is not None:
        found["script"] = str(script)
        if arguments := script_arguments(sys.argv):
            found["arguments"] = [*arguments]
        commit = _commit(script.parent)
        if commit:
            found["git"] = dict(commit)
    return found


def _script() -> Path | None:
    path = getattr(sys.modules.get("__main__"), "__file__", None) or (sys.argv[0] if sys.argv else "")
    return Path(path).resolve() if path and Path(path).is_file() else None


@lru_cache(maxsize=8)
def _commit(folder: Path) -> dict[str, Json]:
    """Return commit and branch of the folder's repository, and whether tracked files differ; empty without one."""
    if not any((parent / ".git").exists() for parent in (folder, *folder.parents)):
        return {}
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return {}
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD")
    return {"commit": commit, "branch": branch or "", "is_dirty": None if changes is None else bool(changes)}


def _git(folder: Path, *words: str) -> str | None:
    """Return git's output; None where git is missing, fails or is too slow."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]
    try:
        completed = subprocess.run(command, capture_output=True, timeout=_GIT_TIMEOUT_S, check=True, text=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return completed.stdout.strip()


def _packages() -> Iterator[tuple[str, Json]]:
    """Yield name and version of every loaded top-level package that states one, without reading any file."""
    for name in sorted(name for name in tuple(sys.modules) if "." not in name and not name.startswith("_")):
        if name in sys.stdlib_module_names:
            continue
        version = vars(sys.modules[name]).get("__version__")
        if isinstance(version, str):
            yield name, version[:_LONGEST]


def _variables() -> Iterator[tuple[str, Json]]:
    for name in sorted(os.environ):
        if (name in _NAMES or name.startswith(_PREFIXES)) and not any(word in name.upper() for word in _SECRET):
            yield name, os.environ[name][:_LONGEST]


def _devices() -> Json:
    """Describe what torch computes on, where it is loaded: accelerators, threads, precision switches."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_num_threads"):
        return {}
    found: dict[str, Json] = {
        "threads": torch.get_num_threads(),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "is_deterministic": bool(torch.are_deterministic_algorithms_enabled()),
        "matmul_precision": str(torch.get_float32_matmul_precision()),
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        names: list[Json] = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        found |= {"cuda": str(torch.version.cuda), "gpus": names, "cudnn": torch.backends.cudnn.version()}
        found["cudnn_benchmark"] = bool(torch.backends.cudnn.benchmark)
    return found


HIDDEN: Final = "***"
#: Words in names of arguments whose values are secret.
_SECRET_WORDS: Final = re.compile("secret|passw|credential|auth(?!or)|cookie")
#: The same, unless the value is a count: `--max-tokens 512` and `--key-dim 64` are settings.
_PERHAPS: Final = re.compile("token(?!i[sz]er)|key")
_COUNT: Final = re.compile("[0-9]{1,7}")
#: `-x`, `--name`, `name`, and Hydra's `+group.name`.
_NAME: Final = re.compile(r"[-+~]{0,2}[A-Za-z_][\w./-]*")
_PASSWORD: Final = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]+@")
#: A word in quotes that may be a key, and how those of well-known services begin.
_LITERAL: Final = re.compile(r"""(['"])(?=[^'"\s]*[0-9])(?=[^'"\s]*[A-Za-z])([^'"\s]{12,})\1""")
_KEYS_OF_SERVICES: Final = ("hf_", "sk-", "ghp_", "github_pat_", "AKIA", "xox", "glpat-")
#: Words that are recorded, and characters of each. Our choice.
_MOST, _LONGEST_WORD = 200, 200


def script_arguments(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments of the script's call with secrets hidden; none of those of a notebook's kernel.

    Hidden are the value of an argument whose name tells of a secret (`--api-key X`, `--token=X`, `hub.token=X`) and the
    password of an address.

    Args:
        argv: As `sys.argv`, the script's own name first.
    """
    if not argv or Path(argv[0]).name.endswith("kernel_launcher.py"):
        return ()
    words = [
        word if len(word) <= _LONGEST_WORD else f"{word[:_LONGEST_WORD]}..." for word in _without_secrets(argv[1:])
    ]
    rest = len(words) - _MOST
    return (*words[:_MOST], f"... and {rest} more") if rest > 0 else tuple(words)


def without_secrets(text: str) -> str:
    """Return the text of a program with what may be a secret in it hidden.

    Hidden are passwords of addresses, and words in quotes of twelve characters and more with a letter and a digit, on
    lines that speak of a secret, a password or a key, or if they begin as the keys of well-known services do.
    """
    return "".join(_without_literals(line) for line in _PASSWORD.sub(rf"\1:{HIDDEN}@", text).splitlines(keepends=True))


def _without_literals(line: str) -> str:
    is_of_a_secret = _SECRET_WORDS.search(line.lower()) or _PERHAPS.search(line.lower())

    def hidden(match: re.Match[str]) -> str:
        quote, word = match[1], match[2]
        return f"{quote}{HIDDEN}{quote}" if is_of_a_secret or word.startswith(_KEYS_OF_SERVICES) else match[0]

    return _LITERAL.sub(hidden, line)


def _without_secrets(words: Sequence[str]) -> Iterator[str]:
    waiting = ""  # the name whose value may come next
    for word in words:
        name, equals, value = word.partition("=")
        if waiting and not word.startswith("--") and _is_secret(waiting, word):
            waiting = ""
            yield HIDDEN
        elif equals and _NAME.fullmatch(name):
            waiting = ""
            yield f"{name}={HIDDEN if _is_secret(name, value) else _open(value)}"
        else:
            waiting = word if word.startswith("-") else ""
            yield _open(word)


def _is_secret(name: str, value: str) -> bool:
    name = name.lower()
    return bool(_SECRET_WORDS.search(name) or (_PERHAPS.search(name) and not _COUNT.fullmatch(value)))


def _open(word: str) -> str:
    return _PASSWORD.sub(rf"\1:{HIDDEN}@", word)


def random_state_checksums() -> dict[str, Json]:
    """Return a checksum of each process-wide generator in use: Python's, NumPy's, torch's by device, the engine's.

    Nothing is drawn and no generator moves.
    """
    found: dict[str, Json] = {"python": _checksum(repr(random.getstate()).encode())}
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        kind, keys, *rest = numpy.get_state()
        found["numpy"] = _checksum(repr((kind, *rest)).encode() + keys.tobytes())
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_rng_state"):
        found["torch"] = _checksum(torch.get_rng_state().numpy().tobytes())
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            for number, state in enumerate(torch.cuda.get_rng_state_all()):
                found[f"cuda:{number}"] = _checksum(state.numpy().tobytes())
    engine = sys.modules.get(f"{__package__.partition('.')[0]}.framework.random")
    if engine is not None:
        found["mindscope"] = _checksum(repr(engine.get_state()).encode())
    return found


def _checksum(state: bytes) -> str:
    return blake2b(state, digest_size=8).hexdigest()
