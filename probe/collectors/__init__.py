"""The catalogue of collectors: each module below puts its own into the table.

They run in the order of their names: `update` reads the weights before `weight` takes its rows from it.
"""

from . import (
    custom_quantities,
    direction_collector,
    histogram_collector,
    hook_collectors,
    parameter_collectors,
    scalar_collectors,
    spectrum_collector,
    update_collector,
)
from .collector import COLLECTORS

for _name in sorted(COLLECTORS):
    COLLECTORS[_name] = COLLECTORS.pop(_name)
