"""The live API: requests, lists, watches, caches and writes. Knows nothing of routing."""
