from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import FormatError
from tidegate.hive.names import AcidDirectory, Base, Delta, is_acid_name, parse_name

LONGS = st.integers(0, 2**63 - 1)
OPTIONAL_LONGS = st.none() | LONGS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("base_0000003", Base(3)),
        ("base_0000006_v0000128", Base(6, 128)),
        ("base_-9223372036854775808", Base(-(2**63))),
        ("delta_0000001_0000003", Delta(1, 3)),
        ("delta_0000001_0000001_0000", Delta(1, 1, 0)),
        ("delta_0000001_0000005_v0000123", Delta(1, 5, None, 123)),
        ("delta_0000001_0000001_0002_v0000123", Delta(1, 1, 2, 123)),
        ("delete_delta_0000004_0000004_0000", Delta(4, 4, 0, deletes=True)),
        ("delete_delta_0000001_0000005_v0000123", Delta(1, 5, None, 123, deletes=True)),
        ("delta_12345678_12345678_12345", Delta(12345678, 12345678, 12345)),
    ],
)
def test_a_name_and_its_value_are_each_others_inverse(name: str, value: AcidDirectory) -> None:
    assert parse_name(name) == value
    assert value.name == name


@given(
    st.builds(Base, st.integers(-(2**63), 2**63 - 1), OPTIONAL_LONGS)
    | st.tuples(
        st.lists(LONGS, min_size=2, max_size=2).map(sorted),
        st.none() | st.integers(0, 2**31 - 1),
        OPTIONAL_LONGS,
        st.booleans(),
    ).map(lambda t: Delta(t[0][0], t[0][1], t[1], t[2], deletes=t[3]))
)
def test_every_value_is_read_back_from_its_own_name(value: AcidDirectory) -> None:
    assert parse_name(value.name) == value
    assert is_acid_name(value.name)


@pytest.mark.parametrize("name", ["base_3", "delta_1_3", "delta_1_1_0", "delete_delta_1_3_v9"])
def test_unpadded_numbers_are_read_as_hive_reads_them(name: str) -> None:
    assert parse_name(name) == parse_name(parse_name(name).name)


@pytest.mark.parametrize(
    "name",
    [
        "base_",
        "base_x",
        "base_3_4",
        "base_3_v",
        "base_9223372036854775808",
        "base_0000003 ",
        "base_0000003\n",
        "delta_1",
        "delta_3_1",
        "delta_-1_3",
        "delta_1_3_",
        "delta_1_3_v",
        "delta_1_3_vx",
        "delta_1_3_v1_2",
        "delta_1_1_9999999999",
        "delta_\u0661_\u0663",
        "delete_delta_1",
        "update_delta_1_3",
        "bucket_00000",
        "",
    ],
)
def test_what_is_not_an_acid_name_is_refused(name: str) -> None:
    with pytest.raises(FormatError):
        parse_name(name)


@pytest.mark.parametrize("form", ["base_{}", "base_1_v{}", "delta_{}_{}", "delta_1_1_{}"])
def test_numbers_of_5000_digits_are_refused_in_a_short_sentence(form: str) -> None:
    digits = "9" * 5000
    with pytest.raises(FormatError) as error:
        parse_name(form.format(digits, digits))
    assert len(str(error.value)) < 400


def test_any_number_of_leading_zeros_is_read() -> None:
    assert parse_name(f"delta_{'0' * 5000}1_{'0' * 5000}3") == Delta(1, 3)
    assert parse_name(f"base_-{'0' * 5000}3") == Base(-3)
