"""Launch heuristics that heurgen generated; see heurgen.toml."""
