"""Indices over vectors: partitions of similar vectors, which are stored whole or compressed."""
