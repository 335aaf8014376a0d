"""What stands around a release: constraints, recipe, image, workflows and documentation agree with the package."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import constraints
from sapwood import __version__
from sapwood.cli.serve import command as serve
from sapwood.web.openapi import PROBES

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def test_constraints_have_all_that_is_needed_in_versions_that_are_allowed() -> None:
    lines = [line for line in read("constraints.txt").splitlines() if not line.startswith("#")]
    pinned = {Requirement(line).name: Requirement(line) for line in lines}
    for wanted in constraints.wanted():
        (version,) = pinned[constraints.normal(wanted.name)].specifier
        assert version.operator == "=="
        assert wanted.specifier.contains(Version(version.version)), f"{wanted}, but {version}"
    assert {"numpy", "h11", "cymem"} <= set(pinned)  # what we need, and what that needs
    assert not set(constraints.LEFT_OUT) & set(pinned)


def test_the_recipe_has_our_version_and_needs_what_we_need() -> None:
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load(read("packaging/conda/recipe.yaml"))
    assert recipe["context"]["version"] == __version__
    run = {Requirement(line.replace(" >=", ">=")) for line in recipe["requirements"]["run"]}
    assert run == {*map(Requirement, PROJECT["dependencies"]), Requirement(f"python{PROJECT['requires-python']}")}
    (entry,) = recipe["build"]["python"]["entry_points"]
    assert entry == f"sapwood = {PROJECT['scripts']['sapwood']}"
    build = tomllib.loads(read("pyproject.toml"))["build-system"]["requires"]
    assert {line.replace(" >=", ">=") for line in recipe["requirements"]["host"]} >= set(build)


def test_groups_are_the_extras_of_that_name() -> None:
    groups = tomllib.loads(read("pyproject.toml"))["dependency-groups"]
    assert set(groups) == {"dev", "docs"}
    for name, lines in groups.items():
        assert lines == PROJECT["optional-dependencies"][name]


def test_what_changes_its_interface_has_an_upper_bound() -> None:
    content = tomllib.loads(read("pyproject.toml"))
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    for requirement in map(Requirement, (*content["build-system"]["requires"], *extras)):
        if requirement.name in ("nanobind", "scikit-build-core", "uvicorn", "starlette", "msgspec"):
            assert any(one.operator == "<" for one in requirement.specifier), requirement


def test_versions_of_python_are_the_same_everywhere() -> None:
    named = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", line)}
    workflow = read(".github/workflows/ci.yml")
    matrix = re.search(r"^ +python: \[(.+)\]$", workflow, re.MULTILINE)
    assert matrix is not None
    assert set(re.findall(r"3\.\d+", matrix[1])) == named
    assert min(named, key=Version) == PROJECT["requires-python"].removeprefix(">=")


def test_the_image_has_no_rights_and_only_what_it_needs() -> None:
    docker = read("Dockerfile")
    stages = docker.split("FROM ")[1:]
    assert len(stages) == 2
    assert "g++" not in stages[1]
    user = re.search(r"^USER (\d+):(\d+)$", stages[1], re.MULTILINE)
    assert user is not None
    assert int(user[1]) > 0
    # The user is changed last: nothing is installed or copied after that.
    assert not re.search(r"^(RUN|COPY|ADD) ", stages[1][user.end() :], re.MULTILINE)
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", docker, re.MULTILINE):
        for name in line.split():
            assert (REPOSITORY / name).exists()
            assert f"!{name}" in read(".dockerignore").splitlines()


def used_options(arguments: list[str]) -> dict[str, str]:
    """Return the options of a command line of `sapwood serve` as the command reads them; it must know them all."""
    assert arguments[0] == "serve"
    known = {option.opts[-1]: option for option in serve.params}
    found = {option.name: str(option.default) for option in serve.params}
    for name, value in re.findall(r"(--[\w-]+)(?:[= ]([^-\s]\S*))?", " ".join(arguments)):
        assert known[name].is_flag == (value == "")
        found[known[name].name] = value
    return found


def test_the_unit_fits_the_command() -> None:
    lines = [line for line in read("packaging/systemd/sapwood.service").splitlines() if re.match(r"\w+=", line)]
    unit = dict(line.split("=", 1) for line in lines)
    options = used_options(unit["ExecStart"].split()[1:])
    assert float(unit["TimeoutStopSec"]) > float(options["drain"])
    assert unit["KillMode"] == "mixed"  # SIGTERM to the first process alone, which stops the others in order
    assert int(unit["LimitNOFILE"]) > int(options["max_connections"]) + 32


def test_the_manifest_fits_the_command_and_the_image() -> None:
    yaml = pytest.importorskip("yaml")
    deployment, service = yaml.safe_load_all(read("packaging/kubernetes/sapwood.yaml"))
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    options = used_options(list(container["args"]))
    assert options["port"] == str(container["ports"][0]["containerPort"])
    sleep = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > sleep + float(options["drain"])
    assert options["max_connections_per_client"] == options["max_connections"]  # the proxy is the only client
    for probe, path in (("startupProbe", "/readyz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
        assert container[probe]["httpGet"] == {"path": path, "port": container["ports"][0]["name"]}
        assert path in PROBES
    assert container["env"][0]["name"] == "SAPWOOD_TOKEN"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert f"USER {pod['securityContext']['runAsUser']}:" in read("Dockerfile")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"] == labels


def test_workflows_name_what_is_there() -> None:
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]
    matrix = jobs["matrix"]["strategy"]["matrix"]
    known = [line.rpartition(" :: ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert matrix["python"] == known
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    for name in (".github/workflows/ci.yml", ".github/workflows/release.yml"):
        for job in yaml.safe_load(read(name))["jobs"].values():
            for step in job["steps"]:
                if (command := step.get("run", "").split(" ")[0]).startswith(".ci/"):
                    assert (REPOSITORY / command).stat().st_mode & 0o111, f"{command} is no program"


def advised(text: str) -> set[str]:
    """Return what a text says to install by its name on an index: no options, files or folders."""
    found = re.findall(r"pip install ((?:[\w.\[\]{}'/*-]+ ?)+)", text)
    return {
        name
        for names in found
        for name in names.rstrip(".").split()
        if re.fullmatch(r"[a-z][\w-]*(\[\w+\])?", name) and not name.endswith("whl")
    }


def test_nothing_that_is_said_names_a_package_that_is_not_there() -> None:
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    known = {Requirement(line).name for line in (*PROJECT["dependencies"], *extras)}
    said = {path: advised(path.read_text(encoding="utf-8")) for path in (REPOSITORY / "src").rglob("*.py")}
    assert {"nltk", "uvicorn", "httptools"} <= set.union(*said.values()), "are they still found?"
    assert not {file: names - known for file, names in said.items() if names - known}
    assert advised("(`pip install -e .`) pip install sapwood[web], pip install a.whl") == {"sapwood[web]"}


@pytest.mark.parametrize(
    "script", ["run", "nightly", "functions", "portability", "arm", "release", "supply", "checked"]
)
def test_scripts_are_shell(script: str) -> None:
    subprocess.run(["bash", "-n", REPOSITORY / ".ci" / script], check=True)
