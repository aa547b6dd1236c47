"""How well compressed benchmarks rank models that no selection has seen: splits, resamplings, tables."""
