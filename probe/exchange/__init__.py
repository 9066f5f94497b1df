"""Runs in the formats of other tools: the catalogue of exporters and importers, one line a file."""

import warnings

from . import csv_tables as csv
from . import msprobe_import as msprobe
from . import parquet_tables as parquet
from . import tensorboard
from . import tensorboard as tensorboard_events
from .run_export import EXPORTERS, Exporter, RunExportError, export
from .run_import import IMPORTERS, Importer, ImportFailed, import_runs

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


def __getattr__(name: str) -> object:
    """Return a renamed export under its old name, for one release more."""
    if name == "ExportError":
        warnings.warn("probe.exchange.ExportError is now RunExportError; import that name", DeprecationWarning, 2)
        return RunExportError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
