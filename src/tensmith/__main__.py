"""`python -m tensmith` is the command line."""

from tensmith.cli import main

main()
