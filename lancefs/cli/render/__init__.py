"""What commands found, as users see it: tables, trees, JSON, CSV, Arrow."""
