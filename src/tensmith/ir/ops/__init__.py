"""The ops of TensIR, one family a file."""
