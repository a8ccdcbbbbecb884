"""Sentences of manifests that were written in other words: both say the same, so an older release still verifies.

`sfumato verify` compares the stated guarantee with what follows from the claim, word by word. Where a sentence is put
into plainer words, the words that it replaces are listed here, and what an older manifest states is read in today's.
"""

from __future__ import annotations

REWORDED = (
    (
        "that how long a value lasts tells nothing of which value it is",
        "that how long a value lasts says nothing about it",
    ),
    ("x: who sees the release believes", "x: someone who sees the release believes"),
    ("x: who sees that a row is published", "x: someone who sees that a row is published"),
    (": who believes that a record has x", ": someone who believes that a record has x"),
    ("equally likely to him: he may know", "equally likely to them: they may know"),
    ("robust-anatomy is for him", "robust-anatomy is for that"),
    ("whatever he knew", "whatever they knew"),
    ("if he knew beforehand", "if they knew beforehand"),
    ("alike to him. He may know", "alike to them. They may know"),
    ("and who knows how groups are made knows that", "and someone who knows how groups are made knows that"),
    ("against him too", "against them too"),
    (
        "who knows that of one missing person, his own for instance,",
        "someone who knows that of one missing person, such as their own,",
    ),
    ("or his rows in two releases", "or their rows in two releases"),
    ("also one of which nothing is withheld", "also one with nothing withheld"),
    ("Nothing is promised of which value is the most frequent", "Nothing is promised about the most frequent value"),
    ("Not for one who sees", "Not for someone who sees"),
    ("Whoever knows", "Someone who knows"),
    ("One who knows", "Someone who knows"),
    ("Who knows", "Someone who knows"),
)
"""Words that were written before, and today's."""


def todays(text: str) -> str:
    """Return a stated sentence in today's words.

    >>> todays("Who knows how groups are made, may learn more.")
    'Someone who knows how groups are made, may learn more.'
    """
    for before, now in REWORDED:
        text = text.replace(before, now)
    return text
