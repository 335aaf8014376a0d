from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sapwood.errors import InputError
from sapwood.evaluate import PARAMETER_SETS, EvalbParameters, get_parameters


def write(folder: Path, text: str) -> Path:
    path = folder / "test.prm"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_with_every_key(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "## how we score\n"
        "DEBUG 1\n"
        "MAX_ERROR\t7\n"
        "CUTOFF_LEN 25   \n"
        "LABELED 0\n"
        "DISC_ONLY 1\n"
        "DELETE_ROOT_PRETERMS 1\n"
        "DELETE_WORD .\n"
        "\n"
        "   \n"
        "DELETE_LABEL TOP\n"
        "DELETE_LABEL ``\n"
        "DELETE_LABEL #\n"
        "DELETE_LABEL_FOR_LENGTH -NONE-\n"
        "QUOTE_LABEL ''\n"
        "QUOTE_LABEL POS\n"
        "EQ_LABEL ADVP PRT\n"
        "EQ_WORD colour color\n"
        "# EQ_WORD grey gray\n",
    )
    assert EvalbParameters.read(path) == EvalbParameters(
        delete_labels=frozenset({"TOP", "``", "#"}),
        delete_labels_for_length=frozenset({"-NONE-"}),
        quote_labels=frozenset({"''", "POS"}),
        equal_labels=(("ADVP", "PRT"),),
        equal_words=(("colour", "color"),),
        cutoff_len=25,
        labeled=False,
        max_error=7,
        debug=1,
        delete_words=frozenset({"."}),
        delete_root_tags=True,
        disc_only=True,
        by_gold=True,
    )
    assert EvalbParameters.read(path).name == str(path)


def test_what_a_file_leaves_out(tmp_path: Path) -> None:
    read = EvalbParameters.read(write(tmp_path, "DELETE_LABEL TOP\n"))
    assert read == EvalbParameters(delete_labels=frozenset({"TOP"}))
    assert read.labeled is True
    assert read.cutoff_len == 40
    assert read.max_error is None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("DELETE_LABELS TOP", "unknown key 'DELETE_LABELS'"),
        ("delete_label TOP", "unknown key 'delete_label'"),
        ("DELETE_LABEL", "DELETE_LABEL takes one value, found nothing"),
        ("DELETE_LABEL TOP S1", "DELETE_LABEL takes one value, found TOP S1"),
        ("EQ_LABEL ADVP", "EQ_LABEL takes 2 values, found ADVP"),
        ("EQ_WORD a b c", "EQ_WORD takes 2 values, found a b c"),
        ("CUTOFF_LEN forty", "CUTOFF_LEN takes a whole number from 0, found 'forty'"),
        ("MAX_ERROR -1", "MAX_ERROR takes a whole number from 0, found '-1'"),
        ("CUTOFF_LEN ²", "CUTOFF_LEN takes a whole number"),
        ("LABELED 2", "LABELED is 0 (compare spans only) or 1"),
        ("DISC_ONLY 2", "DISC_ONLY is 0 (score all phrases) or 1 (only those with gaps)"),
        ("DELETE_ROOT_PRETERMS 2", "DELETE_ROOT_PRETERMS is 0"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, says: str) -> None:
    path = write(tmp_path, f"# first\n\n{line}\n")
    with pytest.raises(InputError) as caught:
        EvalbParameters.read(path)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert says in str(caught.value)


def test_an_unknown_key_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="CUTOFF_LEN, DEBUG, DELETE_LABEL, DELETE_LABEL_FOR_LENGTH"):
        EvalbParameters.read(write(tmp_path, "NONSENSE 1\n"))


def test_the_built_in_sets() -> None:
    default, collins = get_parameters("default"), get_parameters("collins")
    assert default.delete_labels == {"ROOT", "TOP", "S1", "VROOT", "", "-NONE-"}
    assert collins.delete_labels == default.delete_labels | {",", ":", "``", "''", "."}
    assert default.equal_labels == ()
    assert collins.equal_labels == (("ADVP", "PRT"),)
    for name, parameters in PARAMETER_SETS.items():
        assert parameters.name == name
        assert parameters.delete_labels_for_length == ({"-NONE-"} if name != "proper" else set())
        assert (parameters.cutoff_len, parameters.labeled, parameters.max_error) == (40, True, None)


def test_parameters_by_path(tmp_path: Path) -> None:
    path = write(tmp_path, "CUTOFF_LEN 12\n")
    assert get_parameters(path).cutoff_len == 12
    assert get_parameters(str(path)).cutoff_len == 12


def test_neither_name_nor_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"colins: neither a file nor a built-in set .*default, collins, proper"):
        get_parameters(str(tmp_path / "colins"))
    with pytest.raises(InputError, match="is a directory"):
        get_parameters(tmp_path)


def test_many_groups_are_joined_in_no_time() -> None:
    """With every group compared to every other this would take minutes."""
    pairs = tuple((f"A{number}", f"B{number}") for number in range(10_000))
    chain = tuple((f"C{number + 1}", f"C{number}") for number in range(10_000))
    names = EvalbParameters(equal_labels=pairs + chain).label_names
    assert (names["A9999"], names["B9999"]) == ("A9999", "A9999")
    assert {names[f"C{number}"] for number in range(10_001)} == {"C1"}


def test_groups_that_share_a_member_are_one() -> None:
    parameters = EvalbParameters(equal_labels=(("A", "B"), ("C", "D"), ("E", "F"), ("D", "A")))
    assert parameters.label_names == {"A": "A", "B": "A", "C": "A", "D": "A", "E": "E", "F": "E"}


def test_labels_equal_to_a_deleted_one_are_deleted_phrases() -> None:
    parameters = EvalbParameters(delete_labels=frozenset({"TOP", "."}), equal_labels=(("WRAP", "TOP"), ("A", "B")))
    assert parameters.deleted_phrases == {"TOP", ".", "WRAP"}


def test_parameters_can_be_sent_to_another_process() -> None:
    parameters = get_parameters("collins")
    assert parameters.label_names["PRT"] == "ADVP"
    assert pickle.loads(pickle.dumps(parameters)) == parameters
