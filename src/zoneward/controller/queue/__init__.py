"""The work queue of the controller."""
