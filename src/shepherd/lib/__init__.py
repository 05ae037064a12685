"""What two packages need and no domain owns: clock, tasks, back-off, ids, logging, HTTP seam."""
