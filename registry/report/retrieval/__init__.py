"""The page of retrieval over emoji: P@1 by language, plain names against punctuated ones."""
