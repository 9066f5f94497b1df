"""Data for training: sources, orders, batches, worker processes, and a place in them that can be saved."""

from . import batch, combine, mapped, prefetched, shuffle  # they enter the methods of Dataset
from .dataset import Dataset, Item
from .loader import Loader, LoaderState
from .sources import ArrayDataset, GeneratorDataset, NumpySlicesDataset
from .workers import WorkerError

__all__ = [
    "ArrayDataset",
    "Dataset",
    "GeneratorDataset",
    "Item",
    "Loader",
    "LoaderState",
    "NumpySlicesDataset",
    "WorkerError",
]
