"""Data files of all formats: columns, pages, values. No file is opened here."""
