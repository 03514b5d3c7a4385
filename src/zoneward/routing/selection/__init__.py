"""Which endpoints the proxy of a node picks, and the traffic that follows from that."""
