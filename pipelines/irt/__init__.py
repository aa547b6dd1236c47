"""Item response theory: a two-parameter model of which items separate which models."""
