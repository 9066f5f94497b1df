"""Runs in the formats of other tools: the catalogue of exporters and importers, one line a file."""

from . import csv, msprobe, parquet, tensorboard, tensorboard_events
from .importing import IMPORTERS, Importer, ImportFailed, import_runs
from .registry import EXPORTERS, Exporter, ExportError, export

__all__ = [
    "EXPORTERS",
    "IMPORTERS",
    "ExportError",
    "Exporter",
    "ImportFailed",
    "Importer",
    "export",
    "import_runs",
]
