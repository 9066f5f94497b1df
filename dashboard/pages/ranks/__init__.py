"""The page Ranks; start reading in `ranks_page.py`."""
