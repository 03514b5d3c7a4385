"""Plays: a cluster that lives. `reading` makes values of a file, `cluster` says what happens when, `driver` does it."""
