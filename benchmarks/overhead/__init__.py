"""What a monitor costs: the cases, the tools, the process that runs one of them, and what the store takes."""
