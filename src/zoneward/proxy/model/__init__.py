"""What one node serves."""
