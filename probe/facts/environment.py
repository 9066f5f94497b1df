"""Where a run takes place: script and commit, versions of what is loaded, devices, variables that matter."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from ...storage.records import Json
from .arguments import script_arguments

#: Variables with these beginnings change what a training computes, or how fast.
_PREFIXES: Final = (
    "CUBLAS_", "CUDA_", "CUDNN_", "DNNL_", "GLOO_", "GOMP_", "HF_", "JAX_", "KMP_", "MASTER_", "MINDSCOPE_", "MKL_",
    "NCCL_", "NUMBA_", "NUMEXPR_", "NVIDIA_", "OMP_", "ONEDNN_", "OPENBLAS_", "PYTORCH_", "SLURM_JOB_", "TF_",
    "TORCH", "TRITON_", "XLA_",
)  # fmt: skip
_NAMES: Final = frozenset({"PYTHONHASHSEED", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK"})
#: Words in the name of a variable whose value nobody should find in a store.
_SECRET: Final = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "KEY", "AUTH", "COOKIE", "DATABASE", "STORE")
_LONGEST = 200
#: How long git may take to compare the working tree with its commit; our choice: nobody notices it at a start.
_PATIENCE_S = 2.0


def environment() -> dict[str, Json]:
    """What a later run can be compared with: `script`, `arguments`, `git`, `packages`, `variables`, `devices`."""
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
    """Commit and branch of the folder's repository, and whether tracked files differ from it; empty without one."""
    if not any((place / ".git").exists() for place in (folder, *folder.parents)):
        return {}
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return {}
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD")
    return {"commit": commit, "branch": branch or "", "is_dirty": None if changes is None else bool(changes)}


def _git(folder: Path, *words: str) -> str | None:
    """What git says; None where it is missing, unwilling or too slow."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]
    try:
        told = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=True, text=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip()


def _packages() -> Iterator[tuple[str, Json]]:
    """Name and version of every loaded top-level package that states one, without reading any file."""
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
    """What torch computes on, where it is loaded: its accelerators, threads, and the switches of its precision."""
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
