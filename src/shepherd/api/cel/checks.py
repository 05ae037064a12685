"""What is wrong with expressions when they are written down."""

from collections.abc import Iterator
from typing import Any

from shepherd.api import errors
from shepherd.api.cel.expressions import CelError, compile_expression
from shepherd.api.errors import FieldError


def check_expression(
    text: Any, path: str, variables: tuple[str, ...], *types: str
) -> Iterator[FieldError]:
    """What is wrong with an expression that is to be of one of the types (BOOL, STRING...), or of
    any where none is named."""
    if not isinstance(text, str) or not text.strip():
        yield errors.required(path)
        return
    try:
        found = compile_expression(text, variables).returns
    except CelError as error:
        yield errors.invalid_value(path, text, str(error))
        return
    if types and found not in (*types, "DYN"):
        detail = f"must evaluate to {' or '.join(types).lower()}"
        yield errors.invalid_value(path, text, detail)
