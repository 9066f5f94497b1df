"""What the store and the monitor keep when files, processes, disks and servers fail, and what they say."""
