"""Look: what happens, what waits, what happened, and whether all is well."""
