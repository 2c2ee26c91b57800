"""heurgen: GPU autotuning logs in, small dependency-free launch heuristics out."""
