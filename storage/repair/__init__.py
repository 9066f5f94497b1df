"""Repair of damaged runs."""

from .runs import Repair, damage_of, repair_runs

__all__ = ["Repair", "damage_of", "repair_runs"]
