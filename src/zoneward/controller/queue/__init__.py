"""Which Service is synced next, and when."""
