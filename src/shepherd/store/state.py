"""The current state in memory: every key's item, and the keys in order."""

from bisect import bisect_left, bisect_right, insort

from shepherd.store.base import Item, Page, Span


class State:
    """Sorted keys and their items. Reads cost what they return, plus a binary search."""

    def __init__(self, items: dict[str, Item] | None = None) -> None:
        self._items = items or {}
        self._keys = sorted(self._items)

    def get(self, key: str) -> Item | None:
        return self._items.get(key)

    def put(self, item: Item) -> None:
        if item.key not in self._items:
            insort(self._keys, item.key)
        self._items[item.key] = item

    def remove(self, key: str) -> None:
        del self._items[key]
        del self._keys[bisect_left(self._keys, key)]

    def count(self, span: Span) -> int:
        return bisect_left(self._keys, span.end) - bisect_left(self._keys, span.start)

    def page(
        self, span: Span, limit: int, after: str, revision: int, undo: dict[str, Item | None]
    ) -> Page:
        """A page of the state as it was at `revision`.

        `undo` holds, for each key that changed since, its item then (None = it did not exist).
        """
        low = max(bisect_left(self._keys, span.start), bisect_right(self._keys, after))
        keys = self._keys[low : bisect_left(self._keys, span.end)]
        changed = {key: item for key, item in undo.items() if key in span and key > after}
        if changed:
            then = {key: self._items[key] for key in keys} | changed
            found = [item for _, item in sorted(then.items()) if item]
            items = found[:limit] if limit else found
            return Page(items, revision, len(found) - len(items))
        items = [self._items[key] for key in (keys[:limit] if limit else keys)]
        return Page(items, revision, len(keys) - len(items))
