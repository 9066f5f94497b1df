"""From findings to root causes: what may follow from what, on which way, and how sure each finding is."""
