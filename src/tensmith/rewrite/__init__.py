"""Everything that changes a program: exact rules, which are proved, and lossy methods, which are measured."""
