"""Pictures of what the store knows now: what is read and how it is drawn, for pages and for reports."""
