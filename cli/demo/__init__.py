"""The demo: two real models on real data, faults to inject into them, and the loop that trains them."""

from typing import TYPE_CHECKING

from ...storage.renamed_names import renamed
from .demo_faults import FAULTS, Fault
from .demo_session import DemoOptions, run_demo

__all__ = ["FAULTS", "DemoOptions", "Fault", "run_demo"]

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, {"Wishes": "DemoOptions"})
