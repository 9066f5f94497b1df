"""Quantities that know what they look at: attention, routers, gradient noise, and those that users add."""
