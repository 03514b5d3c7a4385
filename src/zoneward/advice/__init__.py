"""Pure: what a cluster does now, why, and what to change."""
