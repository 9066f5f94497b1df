"""What a recording holds over time: newest records as they came, older ones in chunks and tiers; read in bounds."""
