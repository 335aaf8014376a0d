"""Plugins: found by their entry points, loaded when asked for, with errors that name their package."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sapwood.errors import SapwoodError, UsageError
from sapwood.runtime.registry import named, plugins


def test_a_plugin_is_loaded_when_it_is_asked_for(install_plugin):
    install_plugin("barky", "def bark():\n    return 'woof'\n", "sapwood.noises", bark="barky:bark", zip="barky:bark")
    found = plugins("sapwood.noises")
    assert list(found) == ["bark", "zip"]
    assert "barky" not in sys.modules
    assert found["bark"]() == "woof"
    assert "barky" in sys.modules
    assert not plugins("sapwood.others")


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import no_such_module_anywhere", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("", "AttributeError: module 'barky' has no attribute 'bark'"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named(install_plugin, code, problem):
    install_plugin("barky", code, "sapwood.noises", bark="barky:bark")
    with pytest.raises(SapwoodError) as caught:
        plugins("sapwood.noises")["bark"]
    message = str(caught.value)
    assert "'bark'" in message
    assert "barky 1.5" in message
    assert problem in message


def test_two_packages_with_one_name(install_plugin):
    install_plugin("barky", "", "sapwood.noises", bark="barky:bark")
    install_plugin("yelpy", "", "sapwood.noises", bark="yelpy:bark")
    with pytest.raises(SapwoodError, match=r"several packages have a 'bark'.*(barky|yelpy) 1\.5, (barky|yelpy) 1\.5"):
        plugins("sapwood.noises")["bark"]


def test_own_names_come_first_and_all_are_listed(install_plugin):
    install_plugin("barky", "bark = 'woof'", "sapwood.noises", bark="barky:bark", purr="barky:missing")
    own = {"purr": "rrr", "hiss": "sss"}
    assert named("purr", own, "sapwood.noises", "noise") == "rrr"
    assert named("bark", own, "sapwood.noises", "noise") == "woof"
    with pytest.raises(UsageError, match=r"^no noise 'moo'; choose from purr, hiss, bark$"):
        named("moo", own, "sapwood.noises", "noise")


def test_importing_looks_for_no_plugins():
    code = (
        "import importlib.metadata as m\n"
        "def refuse(**_): raise AssertionError('looked for plugins')\n"
        "m.entry_points = refuse\n"
        "import sapwood.inference, sapwood.trees.formats.registry, sapwood.cli.main, sapwood.cli.parse\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
