"""What is done to a program before it is planned: exact rewrites into ops that have fast kernels."""
