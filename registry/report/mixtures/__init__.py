"""The page of a ranking of mixtures of features: score by the share of the second encoder."""
