"""Callbacks for other libraries' training loops."""
