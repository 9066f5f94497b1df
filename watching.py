"""`ms.watch`: where the monitor of the probe and the live diagnosis of insight meet."""
