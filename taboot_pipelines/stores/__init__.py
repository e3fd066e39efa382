"""Where things are kept: blobs, the catalog, Delta tables, and the leases that order their writers."""
