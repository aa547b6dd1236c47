"""Retrieval by embeddings: the rank of the truth among a query's candidates, and what is told of it."""
