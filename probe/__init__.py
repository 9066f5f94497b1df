"""Hooks into a training: what happens at every module, parameter and optimizer slot, step by step."""

from . import collectors
from .aside import aside
from .collectors.collector import COLLECTORS, Collector, collector
from .collectors.custom_quantities import Seen, quantity
from .configuration.cadence import NEVER, Schedule
from .configuration.config import Config
from .configuration.config_loading import load_config
from .errors import ConfigError, NotWatchable, ProbeError, ScriptNotFound, SiteNotFound, TrainingStopped
from .facts import Causality, check_causality
from .kernels import STATISTICS
from .monitor import Monitor
from .script_runner import run_script
from .watch_session import begin, watch

__all__ = [
    "COLLECTORS",
    "NEVER",
    "STATISTICS",
    "Causality",
    "Collector",
    "Config",
    "ConfigError",
    "Monitor",
    "NotWatchable",
    "ProbeError",
    "Schedule",
    "ScriptNotFound",
    "Seen",
    "SiteNotFound",
    "TrainingStopped",
    "aside",
    "begin",
    "check_causality",
    "collector",
    "load_config",
    "quantity",
    "run_script",
    "watch",
]
