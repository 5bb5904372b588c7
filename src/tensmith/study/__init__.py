"""The study of the whole stack: a plan of cells, each measured, and the tables that come of them."""
