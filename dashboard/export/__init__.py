"""What leaves the dashboard: a run as one file that opens without a server, and its figures in a notebook."""

from .notebook import RunView, view_run
from .report import export_report, report

__all__ = ["RunView", "export_report", "report", "view_run"]
