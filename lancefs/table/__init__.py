"""The table format: versions, manifests, fragments, deletions, row ids, changes."""
