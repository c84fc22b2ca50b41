"""What the text of a statement tells of the rows of a table that it uses."""
