"""Figures that several pages draw: arrays in, `go.Figure` out; no store, no callback."""
