"""The data pipeline: versions of a table written as Parquet or Arrow files, and verified."""
