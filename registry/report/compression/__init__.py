"""The report of a compressed suite, its capability frontier, and the probes that made the panel."""
