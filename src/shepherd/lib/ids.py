"""Identifiers, drawn from an injected random source so that one seed replays a cluster."""

from random import Random

# Without vowels, and without the digits and letters that read alike, as Kubernetes does
# (apimachinery util/rand): generated names can't spell words.
_NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def new_uid(random: Random) -> str:
    """A random UUID (RFC 9562 version 4) in its text form."""
    bits = random.getrandbits(128)
    bits = bits & ~(0xF << 76) | (4 << 76)
    bits = bits & ~(0x3 << 62) | (2 << 62)
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def name_suffix(random: Random) -> str:
    """The random tail of a generated name."""
    return "".join(random.choices(_NAME_ALPHABET, k=5))
