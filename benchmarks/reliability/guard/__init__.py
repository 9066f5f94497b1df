"""Campaign of the guard: each function of ours that runs inside a training is made to raise, one at a time."""
