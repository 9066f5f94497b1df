"""Exports of the dashboard: a run as one file that opens without a server, and its figures in a notebook."""

from .html_report import export_report, report
from .notebook_view import RunView, view_run

__all__ = ["RunView", "export_report", "report", "view_run"]
