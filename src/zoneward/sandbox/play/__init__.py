"""Plays: a cluster that lives. `play_file` reads a file, `played_cluster` says what happens when, `driver` does it."""
