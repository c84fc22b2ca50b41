"""A page about a table: `facts` gathers, `findings` judges, `charts` draws, `page` joins."""
