"""Plain array kernels: NumPy in, NumPy out; no labels, no dask, no files."""
