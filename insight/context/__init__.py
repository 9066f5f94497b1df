"""What a rule sees of a step: tables of its numbers, the model's structure, and the bounds of its optimizers."""
