"""Pages of `lancefs serve` for people: `site` finds and frames them, one file makes one page.

They are rendered on the server, have no scripts, and use the style and the parts of reports.
"""
