"""The demo: two real models on real data, what can be done to harm them, and the loop that trains them."""

from .demo_faults import FAULTS, Fault
from .demo_session import Wishes, run_demo

__all__ = ["FAULTS", "Fault", "Wishes", "run_demo"]
