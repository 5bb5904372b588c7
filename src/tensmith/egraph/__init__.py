"""E-graphs: many equal programs in one graph, filled by exact rules; the cheapest one, with a bound."""
