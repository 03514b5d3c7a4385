"""The evaluation tool: algorithms scored over millions of inputs, by the functions that decide for clusters."""
