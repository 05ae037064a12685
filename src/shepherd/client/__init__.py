"""How everyone reaches the API: typed calls over a transport, informers, work queues, events.

The scheduler, the controllers, the agent and sheepctl have nothing else: whatever they can do, any
user's program can do.
"""
