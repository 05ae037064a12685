"""What names, labels and annotations may look like, in upstream's words.

Each rule returns the messages of what is wrong with a text; an empty list means it is valid.
Source: apimachinery `api/validate/content` and `util/validation`.
"""

import re
from collections.abc import Callable

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"

_label = re.compile(_LABEL)
_subdomain = re.compile(_SUBDOMAIN)
_dns1035 = re.compile(_DNS1035)
_qualified = re.compile(_QUALIFIED)
_label_value = re.compile(_LABEL_VALUE)
_config_key = re.compile(_CONFIG_KEY)
_port_charset = re.compile("[-a-z0-9]+")

_ALPHANUMERIC_ENDS = "and must start and end with an alphanumeric character"


def _regex_error(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []


def dns1123_label(text: str) -> list[str]:
    """The rule of namespaces: at most 63 of `a-z0-9-`, no dots."""
    errors = _too_long(text, 63)
    if _label.fullmatch(text):
        return errors
    if _subdomain.fullmatch(text):
        return [*errors, "must not contain dots"]
    message = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        + _ALPHANUMERIC_ENDS
    )
    return [*errors, _regex_error(message, _LABEL, "my-name", "123-abc")]


def dns1123_subdomain(text: str) -> list[str]:
    """The rule of most kinds: labels joined by dots, at most 253 in all."""
    errors = _too_long(text, 253)
    if not _subdomain.fullmatch(text):
        message = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            f"'-' or '.', {_ALPHANUMERIC_ENDS}"
        )
        errors.append(_regex_error(message, _SUBDOMAIN, "example.com"))
    return errors


def dns1035_label(text: str) -> list[str]:
    """The rule of services: a DNS-1123 label that starts with a letter."""
    errors = _too_long(text, 63)
    if not _dns1035.fullmatch(text):
        message = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
            "start with an alphabetic character, and end with an alphanumeric character"
        )
        errors.append(_regex_error(message, _DNS1035, "my-name", "abc-123"))
    return errors


def path_segment(text: str) -> list[str]:
    """The rule of RBAC kinds: anything that can stand between two slashes of a URL."""
    if text in {".", ".."}:
        return [f"may not be '{text}'"]
    return [f"may not contain '{bad}'" for bad in "/%" if bad in text]


def qualified_name(text: str) -> list[str]:
    """A label or annotation key: a name, perhaps after a DNS prefix and a slash."""
    message = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALPHANUMERIC_ENDS}"
    form = _regex_error(message, _QUALIFIED, "MyName", "my.name", "123-abc")
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        optional = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {form}{optional}"]
    errors: list[str] = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        errors += [f"prefix part {error}" for error in dns1123_subdomain(prefix)]
    if not name:
        errors.append("name part must be non-empty")
    else:
        errors += [f"name part {error}" for error in _too_long(name, 63)]
    if not _qualified.fullmatch(name):
        errors.append(f"name part {form}")
    return errors


def label_value(text: str) -> list[str]:
    """The value of a label: at most 63 characters, may be empty."""
    errors = _too_long(text, 63)
    if not _label_value.fullmatch(text):
        message = (
            "a valid label must be an empty string or consist of alphanumeric characters, "
            f"'-', '_' or '.', {_ALPHANUMERIC_ENDS}"
        )
        errors.append(_regex_error(message, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return errors


def config_key(text: str) -> list[str]:
    """A key of a ConfigMap or Secret: it may become a file's name."""
    errors = _too_long(text, 253)
    if not _config_key.fullmatch(text):
        message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        errors.append(_regex_error(message, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    return errors + _climbs(text)


def env_name(text: str) -> list[str]:
    """An environment variable's name: printable ASCII without `=`."""
    if not text:
        return ["environment variable name must be non-empty"]
    if all(" " <= char <= "~" and char != "=" for char in text):
        return []
    return [
        "a valid environment variable name must consist only of printable ASCII characters "
        "other than '='"
    ]


def port_name(text: str) -> list[str]:
    """An IANA service name: at most 15 of `a-z0-9-`, with a letter."""
    errors = _too_long(text, 15)
    if not _port_charset.fullmatch(text):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= char <= "z" for char in text):
        errors.append("must contain at least one letter (a-z)")
    if "--" in text:
        errors.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def _climbs(text: str) -> list[str]:
    if text in {".", ".."}:
        return [f"must not be '{text}'"]
    return ["must not start with '..'"] if text.startswith("..") else []


_RULES: dict[str, Callable[[str], list[str]]] = {
    "dns1123subdomain": dns1123_subdomain,
    "dns1123label": dns1123_label,
    "dns1035label": dns1035_label,
    "path": path_segment,
}


def check_name(rule: str, name: str, *, prefix: bool = False) -> list[str]:
    """What is wrong with an object's name under a `Resource.name_rule`.

    With `prefix`, `name` is a generateName: its end may be a dash, since more will follow.
    """
    if prefix and rule != "path" and len(name) > 1 and name.endswith("-"):
        name = name[:-2] + "a"
    return _RULES[rule](name)
