"""Models on the Hugging Face hub: a repository with the model, its digest, a model card, figures and attribution.

`sapwood.load("hf:owner/name")` downloads from such repositories (`sapwood.model.hub`). The card has the metadata by
which the hub finds models: library, licence, tags and F1. Its values are JSON, which YAML includes, so that no
value can become a key.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any, NamedTuple

from sapwood._version import __version__
from sapwood.errors import UsageError, shortened
from sapwood.interop.packages import PackageCard, read_model
from sapwood.model.hub import DIGEST_FILE, MODEL_FILE, PREFIX, REPOSITORY, explained_error, import_hub

# Identifiers of licences that the hub knows; any other is `other`, with its name.
_LICENCES = re.compile(
    r"mit|apache-2\.0|cc0-1\.0|cc-by-(2\.0|2\.5|3\.0|4\.0)|cc-by-sa-(3\.0|4\.0)|cc-by-nc-(2\.0|3\.0|4\.0)|"
    r"cc-by-nc-sa-(2\.0|3\.0|4\.0)|cc-by-nd-4\.0|cc-by-nc-nd-(3\.0|4\.0)|a?gpl-3\.0|lgpl-(2\.1|3\.0)|bsd-[23]-clause|"
    r"odbl|pddl|odc-by|unlicense|mpl-2\.0|epl-2\.0|eupl-1\.2"
)


class PushedModel(NamedTuple):
    """Model on the hub: its repository, commit, and the SHA-256 of its file."""

    repository: str
    commit: str
    digest: str

    @property
    def name(self) -> str:
        """Name for `sapwood.load` that always means this model."""
        return f"{PREFIX}{self.repository}@{self.commit}"


def push_model(
    model: str | os.PathLike[str], repository: str, *, private: bool = False, **described: Any
) -> PushedModel:
    """Push a model to the Hugging Face hub, and return what it is called there.

    The repository is created if there is none. Files that have not changed are not sent again.

    Parameters
    ----------
    model
        The model file, with one grammar or several.
    repository
        The repository: `owner/name`.
    private
        Whether a new repository is private.
    described
        The description of `PackageCard`: `name`, `language`, `licence`, `attribution`, `figures`, `about`, `treebank`
        and `version`.
    """
    if not REPOSITORY.fullmatch(repository):
        raise UsageError(f"{shortened(repository)!r} is not a repository of the Hugging Face hub: owner/name")
    card = PackageCard(**described)
    loaded, content = read_model(model)
    digest = hashlib.sha256(content).hexdigest()
    name = f"{PREFIX}{repository}"
    use = [
        "    pip install huggingface_hub",
        f"    sapwood parse --model {name} sentences.txt",
        "",
        f'In Python: `sapwood.load("{name}")`. `{name}#{digest}` loads this model and no other.',
    ]
    files = {
        MODEL_FILE: content,
        DIGEST_FILE: f"{digest}  {MODEL_FILE}\n".encode(),
        "README.md": f"{_metadata(card)}{card.format(loaded, content, use)}".encode(),
        "ATTRIBUTION.md": card.attribution.encode(),
        "figures.json": card.figures_file(),
    }
    hub = import_hub(name)
    api = hub.HfApi(library_name="sapwood", library_version=__version__)
    try:
        api.create_repo(repository, private=private or None, exist_ok=True)
        added = [hub.CommitOperationAdd(path, file) for path, file in files.items()]
        commit = api.create_commit(repository, added, commit_message=f"{card.distribution} {card.version}")
    except (hub.errors.HTTPError, ValueError, OSError, RuntimeError) as error:
        raise explained_error(name, error) from error
    return PushedModel(repository, str(commit.oid), digest)


def _metadata(card: PackageCard) -> str:
    """Return the metadata in front of a card."""
    licence = card.licence.lower()
    known = _LICENCES.fullmatch(licence) is not None
    results = [
        {
            "task": {"type": "constituency-parsing", "name": "Constituency parsing"},
            "dataset": {"type": test, "name": test},
            "metrics": [{"type": "f1", "name": "labelled F1 (EVALB)", "value": values["f1"]}],
        }
        for test, values in card.figures.items()
    ]
    fields: dict[str, Any] = {
        "library_name": "sapwood",
        "license": licence if known else "other",
        **({} if known else {"license_name": re.sub(r"[^a-z0-9.-]+", "-", licence)}),
        "tags": ["sapwood", "constituency-parsing", card.language, *filter(None, [card.treebank])],
    }
    if results:
        fields["model-index"] = [{"name": card.name, "results": results}]
    lines = (f"{key}: {json.dumps(value, ensure_ascii=True, allow_nan=False)}\n" for key, value in fields.items())
    return f"---\n{''.join(lines)}---\n\n"
