"""Ping-pong: a loop's operations in an order in which two halves of the waves take turns at memory and matrix work."""
