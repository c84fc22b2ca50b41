"""Arrow IPC files and streams: their layout, and the bytes of any range of a file.

The docstring of `lancefs.views` says what each module does, in the order of a read.
"""
