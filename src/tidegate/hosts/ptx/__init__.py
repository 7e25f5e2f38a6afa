"""PTX as a front end: text in, instructions of `hosts.isa` out."""
