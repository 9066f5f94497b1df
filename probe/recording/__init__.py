"""The step in progress: what is due, the rows that hooks fill, and the record that it becomes."""
