"""What `kubectl explain` says about the kinds that Shepherd acts on: type -> field -> text.

The text of a type itself stands under "".
"""

DESCRIPTIONS: dict[str, dict[str, str]] = {}
