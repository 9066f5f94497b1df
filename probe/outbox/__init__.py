"""Records on their way out, in their order, and the promises of a device that some of them wait for."""
