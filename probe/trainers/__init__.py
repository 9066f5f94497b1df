"""Callbacks for the training loops of others."""
