"""tensmith makes trained models smaller and faster, and says exactly what it knows about the result."""
