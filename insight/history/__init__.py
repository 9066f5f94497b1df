"""What a number is judged by: its own past, as windows, as what is usual, and as what has lasted."""
