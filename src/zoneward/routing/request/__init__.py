"""What a Service asks for, and which of its settings wins."""
