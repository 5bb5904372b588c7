"""Values in bytes: their grids, the integers behind a product, and what its epilogue does with the sums."""
