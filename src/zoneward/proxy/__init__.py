"""The node proxy: what one node sends where, as rules in its kernel."""
