"""The searches that `--search` names, one a module; see search.strategy."""
