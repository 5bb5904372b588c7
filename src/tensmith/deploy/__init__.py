"""From candidates to files: the output folder, the final measurement, the front and the models in it."""
