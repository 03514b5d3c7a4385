"""One sync of one Service: its slices as they should be, and the writes that make them so."""
