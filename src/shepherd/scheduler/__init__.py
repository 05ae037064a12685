"""Chooses a node for every pod: filter, score, bind. "Why is it pending?" lives in `plugins`.

Reading order: `objects` and `shape` (what a pod asks), `cache` (what the nodes have), `framework`
and `plugins` (the rules), `cycle` (the decision), `queue` (who is next), `scheduler` (the loop).
"""
