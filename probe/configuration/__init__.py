"""What a person asks for: where, when, which statistics, and what to do about a finding."""
