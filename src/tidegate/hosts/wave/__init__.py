"""Traces of Wave: torch.fx graphs in, a `SyncGraph` out, and plans carried out in the trace."""
