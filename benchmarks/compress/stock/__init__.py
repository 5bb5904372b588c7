"""The stock tools that tensmith is compared with: cases, makers of their files, their timing, the table."""
