"""The overlay: hints of Zoneward on the slices that the built-in controller writes."""
