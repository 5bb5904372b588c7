"""Compressed models: fronts, the stock tools beside them, what reading and calibrating take."""
