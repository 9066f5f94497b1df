"""Hooks into a training: what happens at every module, parameter and optimizer slot, step by step."""

from . import collectors
from .aside import aside
from .beginning import begin, watch
from .collectors.collector import COLLECTORS, Collector, collector
from .collectors.quantity import Seen
from .collectors.user import quantity
from .configuration.config import Config
from .configuration.load import load_config
from .configuration.schedule import NEVER, Schedule
from .errors import ConfigError, NotWatchable, ProbeError, ScriptNotFound, SiteNotFound, TrainingStopped
from .facts import Causality, check_causality
from .kernels import STATISTICS
from .monitor import Monitor
from .script import run_script

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
