"""Checks that are too dear for a running training: `mindscope doctor` repeats one step of a script on copies."""
