"""A plan as C, and the folder that runs alone."""
