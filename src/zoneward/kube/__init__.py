"""Kubernetes objects as typed, frozen values: names, quantities, structs, decoding and validation."""
