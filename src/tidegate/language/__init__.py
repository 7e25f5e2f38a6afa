"""The kernel language: operations as values, `.tide` text, Python tracing, well-formedness."""
