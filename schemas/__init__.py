"""What data must look like: errors, names, references, tables, arrays and versioned documents.

The lowest layer. It imports nothing else of optotype, and nothing heavy at import.
"""
