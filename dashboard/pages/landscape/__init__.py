"""The page of the loss landscape and of explanations."""
