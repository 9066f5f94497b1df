"""Formats numbers, times and causes for people."""

import math
from urllib.parse import urlsplit, urlunsplit

_SPELLED = {"nan": "NaN", "nans": "NaN", "kl": "KL", "infs": "Inf", "pos": "+", "neg": "-", "l2": "L2"}


def number(value: float, digits: int = 4) -> str:
    """Format the value in few characters; NaN and infinities by name, whole numbers whole."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    return f"{value:.{digits}g}"


def age(seconds: float) -> str:
    """Format an age in the largest unit that says enough: `12 s`, `5 min`, `3 h`, `4 d`."""
    seconds = max(0.0, seconds)
    for limit, size, unit in ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // 86_400)} d"


def sentence(word: str) -> str:
    """Format an identifier as the start of a sentence: `dead_units` becomes `Dead units`."""
    text = word.replace("_", " ").replace("-", " ").strip()
    text = (
        " ".join(_SPELLED.get(part, part) for part in text.split())
        .replace("non finite", "non-finite")
        .replace("+ Inf", "+Inf")
        .replace("- Inf", "-Inf")
    )
    return text[:1].upper() + text[1:]


def prose(text: str) -> str:
    """Format a terse message as whole sentences; leave a site at its beginning as it is."""
    first = text.split(" ", 1)[0]
    text = text[:1].upper() + text[1:] if first.isalpha() else text
    return text if not text or text[-1] in ".!?:" else text + "."


def count(amount: int, singular: str, plural: str = "") -> str:
    """Format an amount with its noun: `1 finding`, `3 findings`."""
    return f"{amount:,} {singular if amount == 1 else plural or singular + 's'}"


def store_location(url: str) -> str:
    """Return the store's URL without the password."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    user, _, location = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}@{location}", query=""))


def short_location(location: str) -> str:
    """Return the last part of a folder or database: enough beside the name of the application."""
    return location.rstrip("/").rpartition("/")[2] or location


def short_site(site: str, width: int = 28) -> str:
    """Shorten the site to `width` characters: its first part and its end stay, for they tell where and what it is."""
    if len(site) <= width:
        return site
    first = site[: site.find(".") + 1]
    head = first if len(first) <= width // 2 else ""
    return f"{head}…{site[-(width - 1 - len(head)) :]}"
