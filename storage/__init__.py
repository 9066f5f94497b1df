"""The nouns of mindscope and the store that keeps them."""

import typing

from . import renamed_names
from .encoding.block_rounding import quantize
from .errors import InvalidName, RunNotFound, StoreDamaged, StoreError, StoreTooNew, StoreUnavailable, nearest
from .history.compaction import Retention
from .memory_store import MemoryStore
from .metric_series import (
    ROOT_SITE,
    SEVERITIES,
    SUBJECTS,
    Matrix,
    Series,
    Severity,
    display_site,
    metric_name,
    split_metric,
)
from .records import Block, Event, Finding, FindingKey, Histogram, Json, Layout, Outcome, StepRecord
from .run_info import (
    FormerStructure,
    ModuleInfo,
    OptimizerInfo,
    ParameterInfo,
    Run,
    RunKind,
    RunState,
    StateWords,
    Structure,
    state_in_words,
)
from .store import BatchListener, FlightBuffer, Listener, RunWriter, Store
from .stored_tensors import Blob, Blobs, StoredTensor, blobs_of, read_tensors, tensor_files
from .streams.stream_store import StreamStore
from .url import migrate, open_store
from .writing.queue_writer import QueueWriter

__all__ = [
    "ROOT_SITE",
    "SEVERITIES",
    "SUBJECTS",
    "BatchListener",
    "Blob",
    "Blobs",
    "Block",
    "Event",
    "Finding",
    "FindingKey",
    "FlightBuffer",
    "FormerStructure",
    "Histogram",
    "InvalidName",
    "Json",
    "Layout",
    "Listener",
    "Matrix",
    "MemoryStore",
    "ModuleInfo",
    "OptimizerInfo",
    "Outcome",
    "ParameterInfo",
    "QueueWriter",
    "Retention",
    "Run",
    "RunKind",
    "RunNotFound",
    "RunState",
    "RunWriter",
    "Series",
    "Severity",
    "StateWords",
    "StepRecord",
    "Store",
    "StoreDamaged",
    "StoreError",
    "StoreTooNew",
    "StoreUnavailable",
    "StoredTensor",
    "StreamStore",
    "Structure",
    "blobs_of",
    "display_site",
    "metric_name",
    "migrate",
    "nearest",
    "open_store",
    "quantize",
    "read_tensors",
    "split_metric",
    "state_in_words",
    "tensor_files",
]

if not typing.TYPE_CHECKING:
    __getattr__ = renamed_names.renamed(__name__, {"Foresight": "BatchListener", "Keeper": "FlightBuffer"})
