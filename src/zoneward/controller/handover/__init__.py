"""Handing Services over between Zoneward and the built-in controller, and the Endpoints objects that go with them."""
