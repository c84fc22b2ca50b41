"""Arrow IPC files and streams: their layout, and the bytes of any range of a file."""
