"""Tables over HTTP, for programs that read URLs and are not Python: `lancefs serve`.

`app` answers requests, behind `guard` (methods, token, how many at once). `files` sends files of
the tree and `ranges` of them, `listings` directories; `refusals` are the answers that are not what
was asked for. `running` is the server. Pages for people come from whoever makes the app.
"""
