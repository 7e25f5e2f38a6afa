"""Independent brute-force judges. Nothing here imports the product except the loops that compare with it."""
