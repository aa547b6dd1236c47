"""Suites in the forms that evaluations read."""
