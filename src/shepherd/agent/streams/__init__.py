"""exec, attach and port-forward: the conversations that leave HTTP end here.

The server relays bytes (`lib.duplex.join`) and understands none of this. From the wire upwards:
`websocket` and `lib.spdy` are the codecs, `channels` says what runs in them; all three are pure.
`links` puts them on a connection as one thing, numbered streams; `command` and `forward` are the
two conversations; `endpoints` begins them.
"""
