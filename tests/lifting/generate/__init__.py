"""Random programs, one generator a language: small functions of every construct that a front end models."""
