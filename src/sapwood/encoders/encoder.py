"""`Encoder`: a pretrained encoder in a folder, and its vectors of words in context.

The folder has `tokenizer.json` and either `model.onnx` or, for encoders of the BERT family, `model.safetensors` and
`config.json`. ONNX Runtime and `tokenizers` (the extra `encoder`) run it, one sentence at a time on one thread: the
vectors of a sentence are the same bytes whatever other sentences there are. Only the layers up to the wanted one are
computed.

Brackets and quotes of the Penn Treebank are undone before words are split into pieces, and the vector of a word is the
mean of those of its pieces. A sentence with more pieces than the encoder has positions is read in overlapping windows;
a word gets its vector from the window in which it is farthest from an end.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.encoders.bert import CONFIG, WEIGHTS, Bert
from sapwood.encoders.onnx_format import OnnxGraph
from sapwood.errors import InputError, SapwoodError, UsageError
from sapwood.storage.files import explained, is_regular
from sapwood.storage.shapes import Array, Float32, Int64

MODEL, TOKENIZER = "model.onnx", "tokenizer.json"
# What the Penn Treebank writes for brackets and quotes.
_PENN = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"',
}  # fmt: skip
# Positions of an encoder whose configuration does not say.
_POSITIONS = 512
# Names of nodes of a layer in exported models.
_OF_LAYER = re.compile(r"(?:^|[/.])layers?[._/](\d+)[/.]")
_HIDDEN_STATES = re.compile(r"hidden_states[._](\d+)")
_CHUNK = 1 << 20
_MISSING = "encoders need ONNX Runtime and tokenizers, which are not installed: pip install onnxruntime tokenizers"


class Encoder:
    """A pretrained encoder.

    Parameters
    ----------
    folder
        Its folder.
    name
        Its name in models and messages. By default that of the folder.

    Attributes
    ----------
    digest
        SHA-256 digest of the files that its vectors depend on.
    """

    def __init__(self, folder: str | Path, *, name: str | None = None) -> None:
        self.folder = Path(folder)
        if not is_encoder(self.folder):
            raise InputError(
                f"{folder}: not an encoder: a folder with {TOKENIZER} and {MODEL}, or {WEIGHTS} and {CONFIG}"
            )
        self.name = name or re.sub(r"[^\w.+-]", "-", self.folder.resolve().name)[:80] or "encoder"
        self._sessions: dict[tuple[tuple[int, ...], bool], Any] = {}

    def __repr__(self) -> str:
        return f"<Encoder: {self.name}, {self.n_layers} layers>"

    def __getstate__(self) -> dict[str, Any]:
        # Sessions cannot be copied; they are made again.
        return {"folder": self.folder, "name": self.name, "_sessions": {}}

    @cached_property
    def digest(self) -> str:
        """Digest of its files."""
        found = hashlib.sha256()
        for path in _files(self.folder):
            found.update(f"{path.name}\n{path.stat().st_size}\n".encode())
            with explained(path), path.open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    found.update(chunk)
        return found.hexdigest()

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return self._bert.config.layers if self._bert is not None else max(self._layers_of_graph)

    @property
    def layers(self) -> list[int]:
        """Layers whose vectors it can return, from 1."""
        if self._bert is not None:
            return list(range(1, self.n_layers + 1))
        return sorted(self._layers_of_graph)

    @property
    def has_int8(self) -> bool:
        """True if it can run in integers of eight bits: a graph of others runs as it is."""
        return self._bert is not None

    @cached_property
    def size(self) -> int:
        """Size of its vectors."""
        return int(self.vectors(["."], self.layers[0]).shape[1])

    @cached_property
    def _bert(self) -> Bert | None:
        return None if (self.folder / MODEL).exists() else Bert(self.folder)

    @cached_property
    def _graph(self) -> OnnxGraph:
        path = self.folder / MODEL
        with explained(path):
            return OnnxGraph(path.read_bytes(), str(path))

    @cached_property
    def _layers_of_graph(self) -> dict[int, str]:
        """The tensor of each layer: a declared output, or that of the last node named after the layer."""
        graph = self._graph
        declared = {int(found[1]): name for name in graph.outputs if (found := _HIDDEN_STATES.search(name))}
        if declared:
            return {layer: name for layer, name in declared.items() if layer > 0}
        named: dict[int, str] = {}
        for _, outputs, name in graph.nodes:
            if outputs and (found := _OF_LAYER.search(name)):
                named[int(found[1]) + 1] = outputs[0]
        if not named and not graph.outputs:
            raise InputError(f"{self.folder / MODEL}: has no output; download it again")
        return named or {1: graph.outputs[0]}

    @cached_property
    def _tokenizer(self) -> Any:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise SapwoodError(_MISSING) from error
        path = self.folder / TOKENIZER
        with explained(path):
            content = path.read_bytes()
        with self._explained("not a tokenizer"):
            found = Tokenizer.from_str(content.decode("utf-8"))
            found.no_truncation()
            found.no_padding()
        return found

    @contextlib.contextmanager
    def _explained(self, problem: str) -> Iterator[None]:
        """Turn errors of the tokenizer into an `InputError`; those of its own are of classes of their own."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
            raise
        except BaseException as error:  # a panic in Rust is no Exception
            raise InputError(f"{self.folder / TOKENIZER}: {problem}: {error}; download it again") from error

    def _pieces(self, words: Sequence[str], *, special: bool) -> tuple[list[int], list[int | None]]:
        """Return the pieces of words, and the word of each."""
        with self._explained("cannot split words"):
            found = self._tokenizer.encode(list(words), is_pretokenized=True, add_special_tokens=special)
            return found.ids, found.word_ids

    @cached_property
    def positions(self) -> int:
        """Greatest number of pieces in its input."""
        return _POSITIONS if self._bert is None else self._bert.config.positions

    def vectors(self, words: Sequence[str], layer: int, *, int8: bool = False) -> Float32[Array, "words size"]:
        """Return the vectors of the words of a sentence in a layer."""
        return self.all_vectors(words, [layer], int8=int8)[0]

    def all_vectors(
        self, words: Sequence[str], layers: Sequence[int], *, int8: bool = False
    ) -> Float32[Array, "layers words size"]:
        """Return the vectors of the words of a sentence in each of some layers."""
        for layer in layers:
            if layer not in self.layers:
                raise UsageError(f"{self.name} has the layers {', '.join(map(str, self.layers))}, not {layer}")
        plain = [_PENN.get(word, word)[: max(1, self.positions // 8)] for word in words]
        found: np.ndarray | None = None
        best = np.full(len(words), -1)
        for begin, end in self._windows(plain):
            vectors = self._window(plain[begin:end], tuple(layers), int8)
            if found is None:
                found = np.zeros((len(layers), len(words), vectors.shape[2]), np.float32)
            place = np.arange(end - begin)
            # Ends of the sentence are not ends of a window.
            margin = np.minimum(
                place if begin else len(words) + place, place[::-1] if end < len(words) else len(words) + place
            )
            better = margin > best[begin:end]
            found[:, begin:end][:, better] = vectors[:, better]
            best[begin:end][better] = margin[better]
        return np.zeros((len(layers), 0, 1), np.float32) if found is None else found

    def _windows(self, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield the first word and the end of each window; mostly there is one."""
        if not words:
            return
        room = self.positions - self._tokenizer.num_special_tokens_to_add(False)
        sizes = np.zeros(len(words), np.int64)
        pieces = self._pieces(words, special=False)[1]
        np.add.at(sizes, [word for word in pieces if word is not None], 1)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        begin = 0
        while True:
            end = max(begin + 1, int(np.searchsorted(ends, ends[begin] + room, side="right")) - 1)
            yield begin, min(end, len(words))
            if end >= len(words):
                return
            # Half a window on, and at least one word.
            begin = max(begin + 1, int(np.searchsorted(ends, ends[begin] + room // 2, side="right")) - 1)

    def _window(self, words: Sequence[str], layers: tuple[int, ...], int8: bool) -> np.ndarray:
        numbers, word_ids = self._pieces(words, special=True)
        if not numbers:
            raise InputError(f"{self.folder / TOKENIZER}: a sentence has no pieces; download it again")
        pieces = self._run(np.array(numbers, np.int64), layers, int8)
        word_of = np.array([-1 if word is None else word for word in word_ids])
        inside = word_of >= 0
        totals = np.zeros((len(words), len(layers), pieces.shape[2]), np.float32)
        np.add.at(totals, word_of[inside], pieces[:, inside].swapaxes(0, 1))
        counts = np.bincount(word_of[inside], minlength=len(words))
        # Words without pieces, such as control characters, get the mean of the sentence.
        totals[counts == 0] = pieces.mean(axis=1)
        means: np.ndarray = totals / np.maximum(counts, 1)[:, None, None].astype(np.float32)
        return means.swapaxes(0, 1)

    def _run(self, pieces: Int64[Array, "pieces"], layers: tuple[int, ...], int8: bool) -> np.ndarray:
        session = self._session(layers, int8)
        if self._bert is not None:
            given: dict[str, np.ndarray] = {"input": self._bert.embed(pieces)}
        else:
            kinds = {
                "input_ids": pieces,
                "attention_mask": np.ones_like(pieces),
                "token_type_ids": np.zeros_like(pieces),
            }
            wanted = [one.name for one in session.get_inputs()]
            if unknown := sorted(set(wanted) - set(kinds)):
                raise InputError(
                    f"{self.folder / MODEL}: has the input {unknown[0]!r}; {', '.join(kinds)} are supported"
                )
            given = {name: kinds[name][None] for name in wanted}
        try:
            found = session.run(None, given)
        except Exception as error:
            raise InputError(f"{self.folder}: the encoder fails: {error}") from error
        if not all(one.ndim == 3 and one.shape[:2] == (1, len(pieces)) for one in found):
            raise InputError(f"{self.folder / MODEL}: its layers do not have a vector for each piece; export it again")
        vectors = np.concatenate(found).astype(np.float32, copy=False)
        if not np.isfinite(vectors).all():
            raise InputError(f"{self.folder}: its vectors have numbers that are not finite; download it again")
        return vectors

    def _session(self, layers: tuple[int, ...], int8: bool) -> Any:
        if (layers, int8) not in self._sessions:
            try:
                import onnxruntime
            except ImportError as error:
                raise SapwoodError(_MISSING) from error
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.log_severity_level = 4
            if self._bert is not None:
                content = self._bert.graph(layers, int8=int8)
            elif int8:
                raise UsageError(f"{self.name}: a {MODEL} runs as it is; quantise it before, or use {WEIGHTS}")
            else:
                content = self._graph.cut([self._layers_of_graph[layer] for layer in layers])
            try:
                session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            except Exception as error:
                raise InputError(f"{self.folder}: ONNX Runtime cannot load the encoder: {error}") from error
            self._sessions[layers, int8] = session
        return self._sessions[layers, int8]


def is_encoder(folder: Path) -> bool:
    """True if a folder has the files of an encoder."""
    there = [is_regular(folder / name) for name in (TOKENIZER, MODEL, WEIGHTS, CONFIG)]
    return there[0] and (there[1] or (there[2] and there[3]))


def _files(folder: Path) -> list[Path]:
    names = [MODEL] if (folder / MODEL).exists() else [WEIGHTS, CONFIG]
    return [folder / name for name in (*names, TOKENIZER)]
