"""Benchmarks compressed from a model x item score matrix, while the ranking of models stays."""
