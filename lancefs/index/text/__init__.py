"""Full-text indices."""
