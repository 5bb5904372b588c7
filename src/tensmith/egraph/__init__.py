"""E-graphs: many equal programs in one graph, filled by exact rules, and the cheapest of them with a bound."""
