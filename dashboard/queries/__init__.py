"""What the pages read from the store; no other package of the dashboard calls the store."""
