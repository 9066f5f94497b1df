"""The configuration: where, when and what to record, and what to do about a finding."""
