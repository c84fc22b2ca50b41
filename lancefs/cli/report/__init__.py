"""HTML page about a table: `facts` reads, `findings` judges, `charts` draws, `page` assembles."""
