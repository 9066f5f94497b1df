"""Runs in the formats of other tools: the catalogue of exporters, one line a file."""

from . import csv, tensorboard
from .registry import EXPORTERS, Exporter, ExportError, export

__all__ = ["EXPORTERS", "ExportError", "Exporter", "export"]
