"""Where a model stands that was evaluated on a suite alone."""
