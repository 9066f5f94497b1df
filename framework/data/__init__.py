"""Data for training: sources, orders, batches, worker processes, and a place in them that can be saved."""

from . import dataset_stages, parallel_map, prefetch  # registers the stages as methods of Dataset
from .dataset import Dataset, Item
from .loader import Loader, LoaderState
from .parallel_map import WorkerError
from .sources import ArrayDataset, GeneratorDataset, NumpySlicesDataset

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
