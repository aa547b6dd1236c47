"""Published versions under ``artifacts/``: written once, found by reference, compared, verified, never repaired."""
