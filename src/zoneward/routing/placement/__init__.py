"""Which endpoints serve which zones, with as few moves as possible from where they were."""
