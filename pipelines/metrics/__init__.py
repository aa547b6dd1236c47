"""Metrics that vision encoders are ranked by: one interface (`metric`), one module a method, names in `catalogue`."""
