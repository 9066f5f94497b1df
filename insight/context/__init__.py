"""What a rule sees of a step: its numbers as tables, the model's anatomy, and what its optimizers can have done."""
