"""What can go wrong while watching.

ProbeError(RuntimeError)
├── ConfigError(ValueError)     the configuration has an unknown key, a wrong value or a contradiction
├── SiteNotFound(LookupError)   a pattern matches no site of the model
├── NotWatchable(TypeError)     what was handed over is no model or optimizer of a framework that is there
└── ScriptNotFound(OSError)     the script to run does not exist
"""


class ProbeError(RuntimeError):
    """Anything that stops a monitor from being set up; once it stands, it never raises into the training."""


class ConfigError(ProbeError, ValueError):
    """The configuration has an unknown key, a wrong value or a contradiction."""


class SiteNotFound(ProbeError, LookupError):
    """A pattern matches no site of the model."""


class NotWatchable(ProbeError, TypeError):
    """What was handed over is no model or optimizer of a framework that is there."""


class ScriptNotFound(ProbeError, OSError):
    """The script to run does not exist."""
