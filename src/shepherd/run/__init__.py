"""The three modes: the only place where the parts meet.

`main` reads the command line into a `Config`; `server` and `agent` each start one half; and
`standalone` is the server, then an agent at its loopback URL, and nothing else.
"""
