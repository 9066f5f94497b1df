"""What stands on the page of watchpoints, and what its address may say."""

from typing import Final

from ...address import Key

#: Characters of a condition that an address carries, so that it stays below 300 bytes.
LONGEST: Final = 110
WHEN = Key("when")
SITES = Key("sites", "*")
SUBJECT = Key("subject", "weight", ("weight", "gradient"))


class Id:
    """What stands on this page."""

    run: Final = "watchpoints-run"
    keys: Final = "watchpoints-keys"
    tick: Final = "watchpoints-tick"
    seen: Final = "watchpoints-seen"
    status: Final = "watchpoints-status"
    cards: Final = "watchpoints-cards"
    pause: Final = "watchpoints-pause"
    step: Final = "watchpoints-step"
    steps: Final = "watchpoints-steps"
    go_on: Final = "watchpoints-continue"
    told: Final = "watchpoints-told"
    when: Final = "watchpoints-when"
    deed: Final = "watchpoints-deed"
    severity: Final = "watchpoints-severity"
    add: Final = "watchpoints-add"
    remove: Final = "watchpoints-remove"
    said: Final = "watchpoints-said"
    conditions: Final = "watchpoints-conditions"
    hits: Final = "watchpoints-hits"
    sites: Final = "watchpoints-sites"
    subject: Final = "watchpoints-subject"
    show: Final = "watchpoints-show"
    shown: Final = "watchpoints-shown"
    attached: Final = "watchpoints-attached"


CONTROLS: Final = ((Id.when, "value", WHEN), (Id.sites, "value", SITES), (Id.subject, "value", SUBJECT))
#: What of the page follows the training.
FOLLOWING: Final = (Id.cards, Id.conditions, Id.hits, Id.shown, Id.attached)
