"""What keeps the store small: old history is forgotten, and Events live for an hour.

Source: kube-apiserver's --event-ttl and --etcd-compaction-interval.
"""

import asyncio
import logging
from collections import deque

from shepherd.api import errors
from shepherd.api.kinds import EVENT
from shepherd.api.meta import key_prefix
from shepherd.api.objects import decode
from shepherd.lib.clock import Clock
from shepherd.server.registry import Registry
from shepherd.store.base import ConflictError, Delete, ExpiredError, Span, Store

log = logging.getLogger("shepherd.server")

COMPACT_SECONDS = 300.0
KEEP_REVISIONS = 5_000
EVENT_TTL_SECONDS = 3600.0
_SWEEP_SECONDS = 60.0
_BATCH = 200
