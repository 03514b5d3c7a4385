"""Plans for people and scripts: terminal tables, JSON and YAML. Values in, text out."""
