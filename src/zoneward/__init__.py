"""Zoneward: Kubernetes Service traffic kept in its own zone, or on its own node, without overloading anyone."""

__version__ = "0.1.0"
