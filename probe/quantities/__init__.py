"""Quantities with a meaning of their own: attention, routers, gradient noise, silent units."""
