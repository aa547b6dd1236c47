"""The report of an evaluation of item selectors."""
