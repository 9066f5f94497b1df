"""Runs in the formats of other tools: the catalogue of exporters and importers, one line a file."""

from typing import TYPE_CHECKING

from ...storage.renamed_names import renamed
from ..errors import ImportFailed
from . import csv_tables as csv
from . import msprobe_import as msprobe
from . import parquet_tables as parquet
from . import tensorboard
from . import tensorboard as tensorboard_events
from .run_export import EXPORTERS, Exporter, RunExportError, export
from .run_import import IMPORTERS, Importer, import_runs

__all__ = [
    "EXPORTERS",
    "IMPORTERS",
    "Exporter",
    "ImportFailed",
    "Importer",
    "RunExportError",
    "export",
    "import_runs",
]

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, {"ExportError": "RunExportError"})
