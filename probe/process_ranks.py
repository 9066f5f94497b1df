"""Which of several processes this one is, and how all of them come to record one run.

torch.distributed is asked where it is initialised; else what launchers leave in the environment: torchrun, Slurm, Open
MPI, MPICH, MVAPICH. The name of the run is agreed on through torch's own key-value store, without a collective. Of
`watch`, rank 0 writes it and the others wait for it, so every rank must call `watch` equally often, and in the same
order. Of `mindscope run`, which finds the model by itself, whoever comes first writes it and nobody waits.
"""

import os
import platform
import re
import sys
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from itertools import count
from types import ModuleType
from typing import Any, Final

from ..storage.process import started_at
from ..storage.run_info import new_run_id
from .errors import NotWatchable

__all__ = ["ProcessRank", "agree_on_run", "join_run", "process_rank"]

#: (rank, processes in all, rank on its host) by launcher.
_ENVIRONMENT: Final = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)
#: What a launcher gives to all its processes and to those of no other launch.
_LAUNCHES: Final = (
    ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
    ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"),
    ("PMIX_NAMESPACE",),
    ("OMPI_MCA_ess_base_jobid",),
    ("PMI_JOBID",),
)
#: A name of torchrun that is no name.
_UNNAMED: Final = ("", "none")
#: How long a rank waits for the name of the run; our choice: long enough for a slow file system at rank 0.
_RUN_NAME_TIMEOUT_S = 60.0
_watches = count()


@dataclass(frozen=True, slots=True)
class ProcessRank:
    """One process among those that train together.

    Args:
        rank: From 0.
        size: How many processes there are.
        local_rank: From 0 on each host.
        groups: The ranks of every process group that this one belongs to, by name; empty outside torch.distributed.
        is_joined: Whether torch.distributed connects the processes.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    groups: tuple[tuple[str, tuple[int, ...]], ...] = ()
    is_joined: bool = False


def process_rank() -> ProcessRank:
    """Return this process's rank; a single process unless the environment says otherwise."""
    distributed = _distributed()
    if distributed is not None:
        local = os.environ.get("LOCAL_RANK", "")
        rank = int(distributed.get_rank())
        local_rank = int(local) if local.isdigit() else rank
        return ProcessRank(
            rank, int(distributed.get_world_size()), local_rank, _groups(distributed, rank), is_joined=True
        )
    for names in _ENVIRONMENT:
        values = [os.environ.get(name, "") for name in names]
        if values[0].isdigit() and values[1].isdigit():
            return ProcessRank(int(values[0]), int(values[1]), int(values[2]) if values[2].isdigit() else 0)
    return ProcessRank()


def agree_on_run(process: ProcessRank, name: str, now: float) -> str | None:
    """Return the id of the run that all ranks record; None where this process is alone.

    Raises:
        NotWatchable: There are several processes that cannot agree: they are not connected yet, or rank 0 says nothing.
    """
    if process.size == 1:
        return None
    if not process.is_joined:
        raise NotWatchable(
            f"this is process {process.rank} of {process.size}, which are not connected; call watch after "
            f"torch.distributed.init_process_group, or pass rank= and the same run_id= in every process"
        )
    key = f"mindscope/run/{next(_watches)}"
    distributed = _distributed()
    assert distributed is not None, "joined processes are connected by torch.distributed"
    store = distributed.distributed_c10d._get_default_store()
    if process.rank == 0:
        run_id = new_run_id(name, now)
        store.set(key, run_id)
        return run_id
    return _waited_for(store, key, process)


def join_run(process: ProcessRank, name: str, now: float) -> str | None:
    """Return the id of the run that all ranks record, without waiting for any; None where this process is alone."""
    if process.size == 1:
        return None
    distributed = _distributed()
    if distributed is None:
        return _run_of_launch(name)
    store = distributed.distributed_c10d._get_default_store()
    return bytes(store.compare_set("mindscope/run/script", "", new_run_id(name, now))).decode()


def _run_of_launch(name: str) -> str:
    """Return an id that processes of one launch compute alike: by the launcher's name, or by its process on this host.

    Processes of an unnamed launch on several hosts record a run for each host.
    """
    for names in _LAUNCHES:
        values = [os.environ.get(variable, "") for variable in names]
        if values[0] not in _UNNAMED:
            return _hashed(name, *values)
    return _hashed(name, platform.node(), str(os.getppid()), started_at(os.getppid()))


def _hashed(name: str, *words: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "run"
    return f"launch-{slug}-{blake2b(repr(words).encode(), digest_size=6).hexdigest()}"


def _waited_for(store: Any, key: str, process: ProcessRank) -> str:
    try:
        store.wait([key], timedelta(seconds=_RUN_NAME_TIMEOUT_S))
        return bytes(store.get(key)).decode()
    except RuntimeError as error:
        raise NotWatchable(
            f"rank {process.rank} waited {_RUN_NAME_TIMEOUT_S:.0f} s for rank 0 to name the run; call watch in "
            f"every rank, or with rank= and the same run_id= in those that call it ({type(error).__name__})"
        ) from error


def _distributed() -> ModuleType | None:
    """Return torch.distributed, where it is loaded and initialised, else None."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def _groups(distributed: ModuleType, rank: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    found = []
    for group in distributed.distributed_c10d._world.pg_map:
        ranks = tuple(int(rank) for rank in distributed.get_process_group_ranks(group))
        if rank in ranks:
            found.append((group_name(distributed, group), ranks))
    return tuple(sorted(set(found)))


def group_name(distributed: ModuleType, group: object) -> str:
    """Return the name of a process group in sites: `world`, its description, or its ranks."""
    if group is None or group is distributed.group.WORLD:
        return "world"
    described = str(getattr(group, "group_desc", "") or "")
    if described and described != "undefined":
        return described
    ranks = distributed.get_process_group_ranks(group)
    return "ranks-" + "-".join(str(rank) for rank in ranks[:8])
