"""The rules of a node in its kernel: written, read back and repaired."""
