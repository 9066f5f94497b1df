"""The way of a record from the training into the store: the queue, and the one thread behind it."""
