"""What every attack obeys: its base class, the table it enters, checked options and inputs, and what comes back."""
