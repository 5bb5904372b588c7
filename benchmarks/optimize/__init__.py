"""`tensmith.optimize` on NumPy programs."""
