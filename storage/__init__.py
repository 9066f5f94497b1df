"""The nouns of mindscope and the store that keeps them."""

from .encoding.quantized import quantize
from .errors import InvalidName, RunNotFound, StoreDamaged, StoreError, StoreTooNew, StoreUnavailable, nearest
from .history.retention import Retention
from .memory.store import MemoryStore
from .names import ROOT_SITE, SEVERITIES, SUBJECTS, Severity, display_site, metric_name, split_metric
from .records import Block, Event, Finding, FindingKey, Histogram, Json, Layout, Outcome, StepRecord
from .run import FormerStructure, ModuleInfo, OptimizerInfo, ParameterInfo, Run, RunKind, RunState, Structure
from .series import Matrix, Series
from .store import Foresight, Keeper, Listener, RunWriter, Store
from .tensors.blobs import Blob, Blobs, blobs_of
from .tensors.stored import StoredTensor, read_tensors, tensor_files
from .url import migrate, open_store
from .writing.writer import QueueWriter

__all__ = [
    "ROOT_SITE",
    "SEVERITIES",
    "SUBJECTS",
    "Blob",
    "Blobs",
    "Block",
    "Event",
    "Finding",
    "FindingKey",
    "Foresight",
    "FormerStructure",
    "Histogram",
    "InvalidName",
    "Json",
    "Keeper",
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
    "StepRecord",
    "Store",
    "StoreDamaged",
    "StoreError",
    "StoreTooNew",
    "StoreUnavailable",
    "StoredTensor",
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
    "tensor_files",
]
