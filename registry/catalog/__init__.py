"""The catalog: a static site of all published versions."""
