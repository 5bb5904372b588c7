"""Programs as native code: groups of nodes, a plan, one C file, a folder that runs alone."""
