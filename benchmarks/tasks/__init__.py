"""Networks of real tasks: trained here on data in their published layouts, and compressed."""
