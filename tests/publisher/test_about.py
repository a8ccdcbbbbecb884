"""[about]: what a release is for, in the publisher's words; kept by everything that reads and writes policies."""

from __future__ import annotations

import tomllib

import pytest

import sfumato as sf
from sfumato.errors import PolicyError
from sfumato.publisher import toml

REST = """
[columns.d]
role = "sensitive"
[method]
name = "uniform"
[requirement]
rho1 = 0.2
rho2 = 0.5
"""
ABOUT = '[about]\ntitle = "Admissions 2025"\nrecipients = "registered researchers"\n'


def test_it_is_read_and_what_is_left_out_is_none() -> None:
    about = sf.Policy.parse(ABOUT + REST).about
    assert about is not None
    assert (about.title, about.owner, about.purpose, about.recipients) == (
        "Admissions 2025", None, None, "registered researchers",
    )  # fmt: skip
    assert sf.Policy.parse(REST).about is None


def test_it_is_hashed_where_it_is_stated_only() -> None:
    assert "about" not in sf.Policy.parse(REST).model_dump(mode="json")
    plain, stated = sf.Policy.parse(REST).hash(), sf.Policy.parse(ABOUT + REST).hash()
    assert plain != stated != sf.Policy.parse(ABOUT.replace("2025", "2026") + REST).hash()


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ('[about]\ntitle = ""\n', "about.title: is empty: write it, or leave the line out"),
        (
            f'[about]\npurpose = "{"x" * 151}"\n',
            "about.purpose: has 151 letters, and at most 150 fit on the first page",
        ),
        ("[about]\nowner = 3\n", 'about.owner: must be a text in quotes, not 3: write owner = "3"'),
        ("[input]\nmissing_values = [9]\n", 'input.missing_values.0: must be a text in quotes, not 9: write "9"'),
        ('[about]\nrecipient = "all"\n', "about.recipient: this key is not known; did you mean 'recipients'?"),
        ('purpose = "research"\n', "purpose: this key does not belong at the top of the policy, outside all sections"),
        (
            'about = "research"\n',
            'about: must be a section: write [about] on a line of its own, and purpose = "research"',
        ),
    ],
)
def test_mistakes_are_told_with_what_to_write(section: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        sf.Policy.parse(section + REST)
    assert message in str(caught.value)


def test_a_policy_is_written_as_it_is_read() -> None:
    for text in (REST, ABOUT + REST):
        policy = sf.Policy.parse(text)
        assert sf.Policy.parse(policy.to_toml()).hash() == policy.hash()
        assert (
            tomllib.loads(policy.to_toml()) == tomllib.loads(text) == tomllib.loads(toml.document(tomllib.loads(text)))
        )
