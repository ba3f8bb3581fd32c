"""Words that cost a reader a second reading stand nowhere in the code, the tests and the pages."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A word or phrase, and what to write instead. Underscores of names count as spaces.
BANNED = {
    r"nobody|somebody|whoever|whatsoever": "the name of the role",
    r"told|telling|hears|hear|heard": "payload, message, reported, consumes",
    r"never not|not never": "a single negation",
    r"lacks?|lacked|lacking": "misses, missing, outstanding",
    r"(?<!there )(is|are|was|were) (?-i:none)": "is not a, there is no",
    r"(?<!there )(is|are|was|were) no(?= [a-z])(?! (longer|more|later))": "is not a",
    r"(?<!dead[ -])letters?(?! case|, digits)": "dead letter",
}
# In what runs for users also these.
BANNED_IN_PRODUCT = {
    r"what (is|was|are|were) (said|told|kept|known|due|so|there|left)": "the noun",
    r"(a|an|the|each|next|last|every|one|this|first|second|its) looks?": "check, poll, listing",
    r"looks|looking": "checks, reads, lists, polls",
    r"(is|was|are|were|be) said|said (of|to be)": "reported, logged",
    r"for ever": "forever, without end",
    r"gives what|says? what": "returns, reports",
}
PACKAGES = sorted({path.parent.name for path in ROOT.glob("*/tidegate/*/*.py")})
# Made from the code's texts by `make docs`.
GENERATED = ("commands.md", "events.md", "settings.md", "metrics.md", "reasons.md")
# File, and a word with its plain meaning or in the name of a test.
ALLOWED = {
    "ARCHITECTURE.md": "a look|heard|said to be",
    "docs/operate.md": "letters",
    "consumers/tidegate/monitoring": "last look",  # the names of metrics
    "tests/ops/test_reading_commands_on_kafka.py": "letters",  # a column's second word
}


def names_and_prose(source: str) -> Iterator[tuple[int, str]]:
    """Every name, string and comment of a module with its line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in {tokenize.NAME, tokenize.COMMENT, tokenize.STRING}:
            for offset, line in enumerate(token.string.split("\n")):
                yield token.start[0] + offset, line


def found_in(path: Path, banned: dict[str, str]) -> list[str]:
    """Each banned word of a file, as `file:line: word (write: ...)`."""
    name, text = str(path.relative_to(ROOT)), path.read_text("utf-8")
    pieces = names_and_prose(text) if path.suffix == ".py" else enumerate(text.split("\n"), 1)
    seen = []
    for line, piece in pieces:
        if re.search(r'"""What (is|was|are|were)\b', piece):
            seen.append(f"{name}:{line}: What is ... (write: the noun)")
        if piece == "each" and path.suffix == ".py":
            seen.append(f"{name}:{line}: each (write: the name of the thing)")
        words = piece.replace("_", " ")
        for pattern, better in banned.items():
            for match in re.finditer(rf"\b(?:{pattern})\b", words, re.IGNORECASE):
                allowed = [word for where, word in ALLOWED.items() if name.startswith(where)]
                if not any(re.fullmatch(word, match[0].lower()) for word in allowed):
                    seen.append(f"{name}:{line}: {match[0]} (write: {better})")
    return seen


def files(*patterns: str) -> list[Path]:
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_in_plain_words(package: str) -> None:
    [folder] = files(f"*/tidegate/{package}")
    banned = BANNED | BANNED_IN_PRODUCT

    assert [word for path in sorted(folder.rglob("*.py")) for word in found_in(path, banned)] == []


def test_the_tests_are_in_plain_words() -> None:
    paths = [
        path for path in files("tests/**/*.py") if path != Path(__file__)
    ]  # it lists the words

    assert [word for path in paths for word in found_in(path, BANNED)] == []


def test_the_pages_for_people_are_in_plain_words() -> None:
    paths = [path for path in files("*.md", "docs/**/*.md") if path.name not in GENERATED]

    assert [word for path in paths for word in found_in(path, BANNED | BANNED_IN_PRODUCT)] == []


if __name__ == "__main__":
    import sys

    for argument in sys.argv[1:]:
        given = (ROOT / argument).resolve()
        for path in sorted(given.rglob("*.py")) if given.is_dir() else [given]:
            product = path.suffix == ".md" or not {"tests", "benchmarks"} & set(path.parts)
            banned = BANNED | BANNED_IN_PRODUCT if product else BANNED
            print("\n".join(found_in(path, banned)))  # noqa: T201 - for an editor
