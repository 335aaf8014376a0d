"""Dask executor: the client, serialisation and arrays of a cluster."""
