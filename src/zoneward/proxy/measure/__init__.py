"""Connections of a node, counted by Service and zone."""
