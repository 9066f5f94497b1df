"""The demo: two real models on real data, faults to inject into them, and the loop that trains them."""

from .demo_faults import FAULTS, Fault
from .demo_session import DemoOptions, run_demo

__all__ = ["FAULTS", "DemoOptions", "Fault", "run_demo"]
