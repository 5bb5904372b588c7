"""Are two whole programs equal? Over random prime fields, or, where fields say nothing, on random numbers."""
