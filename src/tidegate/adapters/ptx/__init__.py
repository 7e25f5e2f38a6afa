"""PTX as a front end: text in, instructions of `adapters.isa` out."""
