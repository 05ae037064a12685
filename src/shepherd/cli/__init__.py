"""`sheepctl`: a client like any other, one file per command.

`main` lists the commands, each loaded when it is called. A command parses its arguments, opens a
`Client` through its `Session` and prints; what it shows is decided in functions that tests call.
"""
