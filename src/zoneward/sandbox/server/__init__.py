"""The API server: the kinds that Zoneward deals with, over HTTP, as clients of a real one expect them."""
