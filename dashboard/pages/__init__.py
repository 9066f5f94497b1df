"""The catalogue of pages, in the order in which the navigation shows them."""

# isort: off
from .runs import runs_page
from .live_run import live_run_page
from .scalars import scalars_page
from .media import media_page
from .layers import layers_page
from .tensor import tensor_page
from .findings import findings_page
from .graph import graph_page
from .ranks import ranks_page
from . import compare_page
from .watchpoints import watchpoints_page
from .profile import profile_page
from .lineage import lineage_page
from .landscape import landscape_page
from .robustness import robustness_page
from . import logs_page

# isort: on
from ..page_registry import PAGES

__all__ = ["PAGES"]
