"""What programs that run for long share: their log, health, metrics, events, and how they are asked about them."""
