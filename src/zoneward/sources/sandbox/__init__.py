"""An API server in this process: the kinds that Zoneward deals with, as clients of a real one expect them."""
