"""What things are: kinds, their fields and rules. Pure: no I/O, and imports nothing of ours."""
