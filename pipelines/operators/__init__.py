"""Labelled, lazy operators on xarray and dask over the kernels of the same names."""
