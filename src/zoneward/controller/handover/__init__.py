"""Services that are taken over from the built-in controller, or given back to it."""
