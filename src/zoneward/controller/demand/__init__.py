"""Demand of single Services from measured figures, in a way that does not let decisions flap."""
