"""What a folder uses of others' published versions: the lock, the cache, their sources, and how they are read."""
