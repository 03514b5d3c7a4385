"""Where the traffic of a Service starts: shares of zones that sum to 1."""
