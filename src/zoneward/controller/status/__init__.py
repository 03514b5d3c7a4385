"""What the controller reports about Services: conditions and Events."""
