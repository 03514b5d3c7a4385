"""Demand of single Services from measured figures, without flapping decisions."""
