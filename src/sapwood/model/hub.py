"""Models of the Hugging Face hub by name: `hf:owner/name`, downloaded once and then read from the local cache.

A name may end in a revision (a branch, a tag or a commit) and in the SHA-256 of the model file:
`hf:owner/name@v1.0`, `hf:owner/name#6c1a0f85...`. A repository has the model, `model.sapwood`, and its digest in
`SHA256SUMS`, as `sapwood package --push` writes them. Both are taken from one commit, and a file with another digest is
refused. huggingface_hub downloads and keeps them; its environment variables apply: `HF_TOKEN`, `HF_HOME`,
`HF_HUB_OFFLINE`, `HF_ENDPOINT`.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from sapwood._version import __version__
from sapwood.errors import InputError, ModelError, shortened
from sapwood.storage.files import explained

PREFIX = "hf:"
MODEL_FILE, DIGEST_FILE = "model.sapwood", "SHA256SUMS"
# Owner and name of a repository.
REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_NAME = re.compile(
    rf"{PREFIX}(?P<repository>{REPOSITORY.pattern})(@(?P<revision>\w[\w.-]{{0,99}}))?(#(?P<digest>[0-9a-f]{{64}}))?",
    re.ASCII,
)
_SUM = re.compile(rf"([0-9a-f]{{64}}) [ *]{re.escape(MODEL_FILE)}", re.ASCII)
# Bytes of a file of digests.
_MOST = 1 << 16


class HubName(NamedTuple):
    """Name of a model on the hub."""

    repository: str
    revision: str | None
    digest: str | None


def read_name(name: str) -> HubName:
    """Return the parts of a name.

    Examples
    --------
    >>> read_name("hf:owner/parser@v1.0")
    HubName(repository='owner/parser', revision='v1.0', digest=None)
    """
    if (found := _NAME.fullmatch(name)) is None:
        raise InputError(
            f"{shortened(name)}: not the name of a model on the Hugging Face hub, such as hf:owner/name, "
            "hf:owner/name@REVISION or hf:owner/name#SHA-256"
        )
    return HubName(found["repository"], found["revision"], found["digest"])


def download_model(name: str | os.PathLike[str]) -> Path:
    """Return the path of a model of the hub in the local cache, downloaded if need be and checked by its digest."""
    wanted = read_name(str(name))
    hub = import_hub(str(name))

    def fetch(file: str, revision: str | None) -> Path:
        try:
            return Path(
                hub.hf_hub_download(
                    wanted.repository, file, revision=revision, library_name="sapwood", library_version=__version__
                )
            )
        except hub.errors.LocalEntryNotFoundError as error:
            raise InputError(
                f"{name}: {file} is not in the local cache, and cannot be downloaded: "
                f"{_reason(error.__cause__ or error)}; check the network, HF_ENDPOINT and HF_HUB_OFFLINE"
            ) from error
        except hub.errors.EntryNotFoundError as error:
            raise InputError(
                f"{name}: the repository has no {file}; `sapwood package --push` makes repositories of models"
            ) from error
        except (hub.errors.HTTPError, ValueError, OSError) as error:
            raise explained_error(str(name), error) from error

    listed = fetch(DIGEST_FILE, wanted.revision)
    # The folder of a snapshot in the cache is named after its commit.
    path = fetch(MODEL_FILE, listed.parent.name)
    digest = _read_digest(str(name), listed)
    if wanted.digest is not None and wanted.digest != digest:
        raise ModelError(f"{name}: the hub has a model with the SHA-256 {digest}; name the revision that you mean")
    with explained(path), path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != digest:
        raise ModelError(
            f"{name}: {path} has the SHA-256 {found}, but {DIGEST_FILE} says {digest}; remove it to download it again"
        )
    return path


def import_hub(name: str) -> Any:
    """Return the module `huggingface_hub`."""
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError:
        raise InputError(
            f"{name}: the Hugging Face hub needs the package huggingface_hub (pip install huggingface_hub)"
        ) from None
    return huggingface_hub


def explained_error(name: str, error: Exception) -> InputError:
    """Return the error to raise for one of huggingface_hub: its first line, and what to do."""
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # the reason why a file could not be sent
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403, 404):
        remedy = "check the name; private and gated repositories need a token (`hf auth login`, or HF_TOKEN)"
    else:
        remedy = "check the network, and HF_ENDPOINT if it is set; HF_HUB_OFFLINE=1 uses the local cache only"
    return InputError(f"{name}: {_reason(error)}; {remedy}")


def _reason(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return next((line.strip()[:300] for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _read_digest(name: str, path: Path) -> str:
    with explained(path), path.open("rb") as stream:
        lines = stream.read(_MOST).decode("ascii", "replace").splitlines()
    found = [match[1] for line in lines if (match := _SUM.fullmatch(line))]
    if len(found) != 1:
        raise ModelError(
            f"{name}: its {DIGEST_FILE} does not list {MODEL_FILE} once; `sapwood package --push` writes it"
        )
    return found[0]
