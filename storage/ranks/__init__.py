"""The roll-up over the ranks of a run: what is kept of thousands of ranks. Start reading in `rollup_recorder.py`."""
