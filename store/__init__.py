"""Where arrays live: layout, chunks and shards, atomic writes, digests, DVC, importers of others' formats."""
