"""The `mindscope` command: one file per group of subcommands, heavy imports inside them so that `--help` is instant."""

from .application import application, main

__all__ = ["application", "main"]
