"""Leader election: which replica writes."""
