# Made by tools/stubs.py from the compiled module. Objects are records: their attributes are arrays.

import enum
from collections.abc import Sequence
from typing import TypeAlias, TypeVar, overload

import numpy
from numpy.typing import NDArray

_Type = TypeVar("_Type", bound=numpy.generic)
_Vector: TypeAlias = numpy.ndarray[tuple[int], numpy.dtype[_Type]]
_Matrix: TypeAlias = numpy.ndarray[tuple[int, int], numpy.dtype[_Type]]
_Cube: TypeAlias = numpy.ndarray[tuple[int, int, int], numpy.dtype[_Type]]

def link_nodes(
    is_leaf: _Vector[numpy.bool_],
    offsets: _Vector[numpy.int64],
    left: _Vector[numpy.int32],
    right: _Vector[numpy.int32],
    parent: _Vector[numpy.int32],
    start: _Vector[numpy.int32],
    end: _Vector[numpy.int32],
) -> int: ...
def scan_brackets(
    bytes: _Vector[numpy.uint8],
) -> tuple[
    bool,
    NDArray[numpy.int32],
    NDArray[numpy.int32],
    NDArray[numpy.int32],
    NDArray[numpy.int64],
    NDArray[numpy.int64],
    NDArray[numpy.int64],
    NDArray[numpy.int64],
]: ...
def write_brackets(
    symbols: _Vector[numpy.int32],
    ends: _Vector[numpy.int32],
    begins: _Vector[numpy.int64],
    texts: _Vector[numpy.uint8],
    bounds: _Vector[numpy.int64],
    n_labels: int,
) -> NDArray[numpy.uint8]: ...
def match_pattern(
    parts: _Matrix[numpy.int32],
    lists: _Vector[numpy.int32],
    n_names: int,
    n_variables: int,
    n_spellings: int,
    n_labels: int,
    oracle: object,
    symbols: _Vector[numpy.int32],
    parents: _Vector[numpy.int32],
    begins: _Vector[numpy.int64],
    first_words: _Vector[numpy.int64],
    last_words: _Vector[numpy.int64],
    candidates: _Vector[numpy.int64],
    held: _Matrix[numpy.bool_],
    most_steps: int,
) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64], int]: ...
def rewrite_trees(
    part_bounds: _Vector[numpy.int64],
    list_bounds: _Vector[numpy.int64],
    operation_bounds: _Vector[numpy.int64],
    name_counts: _Vector[numpy.int64],
    variable_counts: _Vector[numpy.int64],
    parts: _Matrix[numpy.int32],
    lists: _Vector[numpy.int32],
    operations: _Matrix[numpy.int32],
    operation_lists: _Vector[numpy.int32],
    text_bounds: _Vector[numpy.int64],
    pieces: _Matrix[numpy.int32],
    tree_bounds: _Vector[numpy.int64],
    tree_nodes: _Matrix[numpy.int32],
    constants: list,
    n_spellings: int,
    n_labels: int,
    oracle: object,
    symbols: _Vector[numpy.int32],
    parents: _Vector[numpy.int32],
    begins: _Vector[numpy.int64],
    positions: _Vector[numpy.int64],
    most_rewrites: int,
    most_steps: int,
    allow_word_changes: bool,
) -> tuple: ...
def emission_row(
    columns: object, terminals: _Vector[numpy.int64], weights: _Vector[numpy.float64], n_tags: int
) -> NDArray[numpy.float64]: ...
def has_wide_vectors() -> bool: ...
def matrix_product(
    a: _Matrix[numpy.float32],
    transpose_a: bool,
    b: _Matrix[numpy.float32],
    transpose_b: bool,
    out: _Matrix[numpy.float32],
    add: bool,
    wide: bool,
) -> None: ...

class SpanScorer:
    def __init__(
        self,
        embeddings: _Matrix[numpy.float32],
        weights: _Vector[numpy.float32],
        hidden: int,
        layers: int,
        span_hidden: int,
        labels: int,
        tags: int,
        encoder: int,
    ) -> None: ...
    def scores(
        self, features: _Matrix[numpy.int32], vectors: _Matrix[numpy.float32]
    ) -> tuple[NDArray[numpy.float32], NDArray[numpy.float32]]: ...

def affine_map(
    vectors: _Matrix[numpy.float32], weights: _Matrix[numpy.float32], shift: _Vector[numpy.float32]
) -> NDArray[numpy.float32]: ...
def prune_cells(scores: _Matrix[numpy.float32], n: int, threshold: float) -> NDArray[numpy.int32]: ...
@overload
def entry_products(
    indptr: _Vector[numpy.int32],
    indices: _Vector[numpy.int32],
    left: _Matrix[numpy.float64],
    right: _Matrix[numpy.float64],
) -> NDArray[numpy.float64]: ...
@overload
def entry_products(
    indptr: _Vector[numpy.int64],
    indices: _Vector[numpy.int64],
    left: _Matrix[numpy.float64],
    right: _Matrix[numpy.float64],
) -> NDArray[numpy.float64]: ...
def active_set(
    gram: _Matrix[numpy.float64], products: _Matrix[numpy.float64], tolerance: float, weights: _Matrix[numpy.float64]
) -> None: ...
def frank_wolfe(
    gram: _Matrix[numpy.float64],
    products: _Matrix[numpy.float64],
    tolerance: float,
    iterations: int,
    weights: _Matrix[numpy.float64],
) -> None: ...
def apply_sparse(
    tensor: object, left: _Matrix[numpy.float64], right: _Matrix[numpy.float64], result: _Matrix[numpy.float64]
) -> None: ...
def contract_sparse(tensor: object, matrix: _Matrix[numpy.float64], result: _Cube[numpy.float64]) -> None: ...
def sandwich_sparse(
    tensor: object,
    rows: _Vector[numpy.int64],
    left: _Matrix[numpy.float64],
    right: _Matrix[numpy.float64],
    other: object,
    pairs: _Matrix[numpy.int64],
    pair_of: _Vector[numpy.int64],
    result: _Matrix[numpy.float64],
) -> None: ...
def half_sandwich_sparse(
    half: _Cube[numpy.float64], right: _Matrix[numpy.float64], tensor: object, result: _Matrix[numpy.float64]
) -> None: ...
def update_factor(
    entries: object,
    one: _Matrix[numpy.float64],
    two: _Matrix[numpy.float64],
    rows: _Matrix[numpy.float64],
    begin: int,
    end: int,
    method: int,
    inner: int,
    tolerance: float,
    objectives: _Vector[numpy.float64],
    violations: _Vector[numpy.float64],
) -> None: ...
def product_values(
    places: _Matrix[numpy.int32],
    parent: _Matrix[numpy.float64],
    left: _Matrix[numpy.float64],
    right: _Matrix[numpy.float64],
) -> NDArray[numpy.float64]: ...
def cp_span_posteriors(
    rules: object,
    root: _Vector[numpy.float64],
    leaves: _Matrix[numpy.float64],
    groups: _Vector[numpy.int32],
    seconds: float,
    posteriors: _Matrix[numpy.float64],
) -> tuple[int, float]: ...
def dense_span_posteriors(
    rules: object,
    root: _Vector[numpy.float64],
    leaves: _Matrix[numpy.float64],
    groups: _Vector[numpy.int32],
    seconds: float,
    posteriors: _Matrix[numpy.float64],
) -> tuple[int, float]: ...
def sparse_span_posteriors(
    rules: object,
    root: _Vector[numpy.float64],
    leaves: _Matrix[numpy.float64],
    groups: _Vector[numpy.int32],
    seconds: float,
    posteriors: _Matrix[numpy.float64],
) -> tuple[int, float]: ...

LONGEST_WORD: int = 1048576

class WordTable:
    def __init__(self, words: int, letters: int, seed: int) -> None: ...
    def __len__(self) -> int: ...
    def counts(self) -> NDArray[numpy.int64]: ...
    def tokenise(self, text: _Vector[numpy.uint8], lines: bool) -> tuple[NDArray[numpy.int32], int, int]: ...
    def add_words(self, letters: _Vector[numpy.uint8], ends: _Vector[numpy.int64]) -> NDArray[numpy.int64]: ...
    def add_table(self, other: WordTable) -> NDArray[numpy.int64]: ...
    def find(self, text: _Vector[numpy.uint8], key: int) -> int: ...
    def slot(self, place: int) -> tuple[int, int]: ...
    def spell(self, numbers: _Vector[numpy.int64]) -> NDArray[numpy.uint8]: ...
    def letters_from(self, number: int) -> NDArray[numpy.uint8]: ...
    def forget(self, words: int) -> None: ...

def renumber_words(
    numbers: _Vector[numpy.int32],
    ids_of: _Vector[numpy.int32],
    is_open: bool,
    begin: int,
    end: int,
    ids: _Vector[numpy.int32],
) -> int: ...
def bucket_sizes(ids: _Vector[numpy.int32], bucket_of: _Vector[numpy.int32], sizes: _Vector[numpy.int64]) -> None: ...
def divide_ngrams(
    ids: _Vector[numpy.int32],
    n: int,
    order: int,
    bits: int,
    end: int,
    bucket_of: _Vector[numpy.int32],
    at: _Vector[numpy.int64],
    keys: _Matrix[numpy.uint64],
) -> None: ...
def sort_keys(keys: _Matrix[numpy.uint64], scratch: _Matrix[numpy.uint64], n_columns: int) -> bool: ...
def count_equal_keys(keys: _Matrix[numpy.uint64], n_columns: int, counts: _Vector[numpy.int64]) -> int: ...
def fill_ngrams(
    keys: _Matrix[numpy.uint64],
    counts: _Vector[numpy.int64],
    order: int,
    bits: int,
    ngrams: _Matrix[numpy.int32],
    totals: _Vector[numpy.int64],
) -> int: ...
def locate_ngrams(
    words: _Vector[numpy.int32], starts: _Vector[numpy.int64], ngrams: _Matrix[numpy.int32]
) -> NDArray[numpy.int64]: ...
def score_ngrams(
    ids: _Vector[numpy.int32],
    first: int,
    order: int,
    begin: int,
    words: _Vector[numpy.int32],
    starts: _Vector[numpy.int64],
    log_probabilities: _Vector[numpy.float64],
    log_backoffs: _Vector[numpy.float64],
) -> NDArray[numpy.float64]: ...
def count_tiles(
    matrix: object,
    begin: int,
    end: int,
    rows: _Vector[numpy.int32],
    block_of: _Vector[numpy.int32],
    entries: _Vector[numpy.int64],
    segments: _Vector[numpy.int64],
) -> None: ...
def fill_tiles(
    matrix: object,
    begin: int,
    end: int,
    rows: _Vector[numpy.int32],
    block_of: _Vector[numpy.int32],
    place_of: _Vector[numpy.int32],
    next_entry: _Vector[numpy.int64],
    next_segment: _Vector[numpy.int64],
    tiles: object,
) -> None: ...
@overload
def expect_tiles(
    first: int,
    last: int,
    tiles: object,
    r: _Matrix[numpy.float32],
    s: _Matrix[numpy.float32],
    r_sums: _Matrix[numpy.float32],
    s_sums: _Matrix[numpy.float32],
) -> float: ...
@overload
def expect_tiles(
    first: int,
    last: int,
    tiles: object,
    r: _Matrix[numpy.float64],
    s: _Matrix[numpy.float64],
    r_sums: _Matrix[numpy.float64],
    s_sums: _Matrix[numpy.float64],
) -> float: ...
@overload
def expect_tile_rows(
    first: int,
    last: int,
    tiles: object,
    r: _Matrix[numpy.float32],
    s: _Matrix[numpy.float32],
    r_sums: _Matrix[numpy.float32],
) -> float: ...
@overload
def expect_tile_rows(
    first: int,
    last: int,
    tiles: object,
    r: _Matrix[numpy.float64],
    s: _Matrix[numpy.float64],
    r_sums: _Matrix[numpy.float64],
) -> float: ...
@overload
def multiply_tiles(
    first: int,
    last: int,
    tiles: object,
    transposed: bool,
    dense: _Matrix[numpy.float32],
    result: _Matrix[numpy.float32],
) -> None: ...
@overload
def multiply_tiles(
    first: int,
    last: int,
    tiles: object,
    transposed: bool,
    dense: _Matrix[numpy.float64],
    result: _Matrix[numpy.float64],
) -> None: ...
@overload
def pair_products(
    contexts: _Vector[numpy.int32],
    targets: _Vector[numpy.int32],
    r: _Matrix[numpy.float32],
    s: _Matrix[numpy.float32],
    result: _Vector[numpy.float64],
) -> None: ...
@overload
def pair_products(
    contexts: _Vector[numpy.int32],
    targets: _Vector[numpy.int32],
    r: _Matrix[numpy.float64],
    s: _Matrix[numpy.float64],
    result: _Vector[numpy.float64],
) -> None: ...
@overload
def weighted_logs(begin: int, end: int, values: _Matrix[numpy.float32], weights: _Vector[numpy.float64]) -> float: ...
@overload
def weighted_logs(begin: int, end: int, values: _Matrix[numpy.float64], weights: _Vector[numpy.float64]) -> float: ...
@overload
def blend_rows(
    begin: int,
    end: int,
    r: _Matrix[numpy.float32],
    r_sums: _Matrix[numpy.float32],
    blend: _Vector[numpy.float64],
    statistics: _Matrix[numpy.float32],
    pseudo: float,
    smallest: float,
) -> None: ...
@overload
def blend_rows(
    begin: int,
    end: int,
    r: _Matrix[numpy.float64],
    r_sums: _Matrix[numpy.float64],
    blend: _Vector[numpy.float64],
    statistics: _Matrix[numpy.float64],
    pseudo: float,
    smallest: float,
) -> None: ...
@overload
def blend_columns(
    begin: int,
    end: int,
    s: _Matrix[numpy.float32],
    s_sums: _Matrix[numpy.float32],
    blend: _Vector[numpy.float64],
    statistics: _Matrix[numpy.float32],
    totals: _Vector[numpy.float64],
) -> None: ...
@overload
def blend_columns(
    begin: int,
    end: int,
    s: _Matrix[numpy.float64],
    s_sums: _Matrix[numpy.float64],
    blend: _Vector[numpy.float64],
    statistics: _Matrix[numpy.float64],
    totals: _Vector[numpy.float64],
) -> None: ...
@overload
def maximise_columns(
    begin: int,
    end: int,
    s: _Matrix[numpy.float32],
    expected: _Matrix[numpy.float32],
    pseudo: _Vector[numpy.float64],
    scale: _Vector[numpy.float64],
    smallest: float,
) -> None: ...
@overload
def maximise_columns(
    begin: int,
    end: int,
    s: _Matrix[numpy.float64],
    expected: _Matrix[numpy.float64],
    pseudo: _Vector[numpy.float64],
    scale: _Vector[numpy.float64],
    smallest: float,
) -> None: ...
def exchange_words(
    pairs: object,
    first: int,
    open: int,
    n_classes: int,
    spelling: _Vector[numpy.int32],
    n_spellings: int,
    prior: float,
    classes: _Vector[numpy.int32],
) -> int: ...
@overload
def row_totals(
    layout: object, first: int, last: int, counts: _Vector[numpy.float32], totals: _Vector[numpy.float64]
) -> None: ...
@overload
def row_totals(
    layout: object, first: int, last: int, counts: _Vector[numpy.float64], totals: _Vector[numpy.float64]
) -> None: ...
@overload
def drop_small(layout: object, least: float, tensors: _Vector[numpy.float32]) -> None: ...
@overload
def drop_small(layout: object, least: float, tensors: _Vector[numpy.float64]) -> None: ...
def normalise_and_smooth(
    layout: object,
    first: int,
    last: int,
    counts: _Vector[numpy.float64],
    totals: _Vector[numpy.float64],
    smoothing: float,
    half_count: float,
    least: float,
    result: _Vector[numpy.float32],
) -> None: ...
def split_tensors(
    old: object,
    tensors: _Vector[numpy.float32],
    split: object,
    first: int,
    last: int,
    origin: _Vector[numpy.int64],
    share: _Vector[numpy.float64],
    noise: _Vector[numpy.float64],
    result: _Vector[numpy.float64],
) -> None: ...
def merge_tensors(
    old: object,
    counts: _Vector[numpy.float64],
    merged: object,
    new_state: _Vector[numpy.int64],
    result: _Vector[numpy.float64],
) -> None: ...
def merge_losses(
    symbol: _Vector[numpy.int32],
    state_offsets: _Vector[numpy.int64],
    twin: _Vector[numpy.bool_],
    frequency: _Vector[numpy.float64],
    offsets: _Vector[numpy.int64],
    inside: _Vector[numpy.float32],
    outside: _Vector[numpy.float32],
    certain: bool,
    weight: float,
    losses: _Vector[numpy.float64],
) -> None: ...
@overload
def rule_pass(
    outside: _Matrix[numpy.float32],
    left: _Matrix[numpy.float32],
    right: _Matrix[numpy.float32],
    weights: _Vector[numpy.float32],
    tensor: _Matrix[numpy.float32],
    chunk: int,
    gradient: _Matrix[numpy.float32],
) -> float: ...
@overload
def rule_pass(
    outside: _Matrix[numpy.float64],
    left: _Matrix[numpy.float64],
    right: _Matrix[numpy.float64],
    weights: _Vector[numpy.float64],
    tensor: _Matrix[numpy.float64],
    chunk: int,
    gradient: _Matrix[numpy.float64],
) -> float: ...
@overload
def rule_em(
    outside: _Matrix[numpy.float32],
    left: _Matrix[numpy.float32],
    right: _Matrix[numpy.float32],
    weights: _Vector[numpy.float32],
    start: _Matrix[numpy.float32],
    strength: float,
    chunk: int,
    iterations: int,
    tolerance: float,
    tensor: _Matrix[numpy.float32],
) -> tuple[int, float]: ...
@overload
def rule_em(
    outside: _Matrix[numpy.float64],
    left: _Matrix[numpy.float64],
    right: _Matrix[numpy.float64],
    weights: _Vector[numpy.float64],
    start: _Matrix[numpy.float64],
    strength: float,
    chunk: int,
    iterations: int,
    tolerance: float,
    tensor: _Matrix[numpy.float64],
) -> tuple[int, float]: ...
def climb(
    rule: _Vector[numpy.int32],
    left: _Vector[numpy.int32],
    right: _Vector[numpy.int32],
    head_is_right: _Vector[numpy.bool_],
    height: _Vector[numpy.int32],
    head: _Vector[numpy.int32],
) -> None: ...
def descend(
    parent: _Vector[numpy.int32],
    intermediate: _Vector[numpy.bool_],
    head: _Vector[numpy.int32],
    depth: _Vector[numpy.int32],
    phrase: _Vector[numpy.int32],
    outer: _Vector[numpy.int32],
) -> None: ...
def fill_rows(
    rows: _Vector[numpy.int32],
    columns: _Vector[numpy.int32],
    weights: _Vector[numpy.float64],
    next_entry: _Vector[numpy.int64],
    indices: _Vector[numpy.int32],
    data: _Vector[numpy.float64],
) -> None: ...
def sru_forward(
    gates: _Cube[numpy.float32],
    bias: _Vector[numpy.float32],
    skip: _Cube[numpy.float32],
    cell: _Cube[numpy.float32],
    activation: _Cube[numpy.float32],
    out: _Cube[numpy.float32],
) -> None: ...
def sru_backward(
    gates: _Cube[numpy.float32],
    skip: _Cube[numpy.float32],
    cell: _Cube[numpy.float32],
    activation: _Cube[numpy.float32],
    gradient: _Cube[numpy.float32],
    skip_gradient: _Cube[numpy.float32],
) -> None: ...
def layer_norm_forward(
    values: _Matrix[numpy.float32],
    gain: _Vector[numpy.float32],
    shift: _Vector[numpy.float32],
    relu: bool,
    scale: _Vector[numpy.float32],
    out: _Matrix[numpy.float32],
) -> None: ...
def layer_norm_backward(
    values: _Matrix[numpy.float32],
    gain: _Vector[numpy.float32],
    relu: bool,
    scale: _Vector[numpy.float32],
    out: _Matrix[numpy.float32],
    gradient: _Matrix[numpy.float32],
    gain_gradient: _Vector[numpy.float32],
    shift_gradient: _Vector[numpy.float32],
) -> None: ...
def span_sum(
    left: _Matrix[numpy.float32],
    right: _Matrix[numpy.float32],
    starts: _Vector[numpy.int32],
    ends: _Vector[numpy.int32],
    out: _Matrix[numpy.float32],
) -> None: ...
def span_sum_backward(
    gradient: _Matrix[numpy.float32],
    starts: _Vector[numpy.int32],
    ends: _Vector[numpy.int32],
    left: _Matrix[numpy.float32],
    right: _Matrix[numpy.float32],
) -> None: ...
def embedding_bag(
    embeddings: _Matrix[numpy.float32], places: _Matrix[numpy.int32], out: _Matrix[numpy.float32]
) -> None: ...
def embedding_bag_backward(
    gradient: _Matrix[numpy.float32], places: _Matrix[numpy.int32], embeddings: _Matrix[numpy.float32]
) -> None: ...
def cross_entropy(scores: _Matrix[numpy.float32], right: _Vector[numpy.int32]) -> float: ...
def tree_crf_loss(
    scores: _Matrix[numpy.float32], right: _Vector[numpy.int32], n: int, mass: _Vector[numpy.float32]
) -> float: ...
def adam_step(
    weights: _Vector[numpy.float32],
    gradient: _Vector[numpy.float32],
    mean: _Vector[numpy.float32],
    square: _Vector[numpy.float32],
    factor: float,
    rate: float,
    first: float,
    second: float,
) -> None: ...

class CRFSentence:
    @property
    def n_edges(self) -> int: ...
    @property
    def n_nodes(self) -> int: ...
    @property
    def forest(self) -> Forest: ...
    @property
    def old_nodes(self) -> NDArray[numpy.int32]: ...
    @property
    def gold(self) -> NDArray[numpy.uint8]: ...

class CRFGradient:
    @property
    def places(self) -> NDArray[numpy.uint32]: ...
    @property
    def values(self) -> NDArray[numpy.float32]: ...
    @property
    def dense(self) -> NDArray[numpy.float64]: ...
    @property
    def loss(self) -> float: ...

class CRFTrainer:
    @property
    def steps(self) -> int: ...

def crf_sentence(
    crf: ForestCRF,
    forest: Forest,
    nodes: _Vector[numpy.float64],
    edges: _Vector[numpy.float64],
    log_nodes: _Vector[numpy.float64] | None,
    log_edges: _Vector[numpy.float64] | None,
    members: int,
    words: _Matrix[numpy.uint32],
    spans: _Matrix[numpy.float32],
    tags: _Matrix[numpy.float32],
    worth: _Vector[numpy.float64],
    workspace: Workspace,
) -> CRFSentence: ...
def crf_gradient(crf: ForestCRF, sentence: CRFSentence, workspace: Workspace) -> CRFGradient: ...
def crf_trainer(
    crf: ForestCRF, rate: float, dense_rate: float, lasso: float, ridge: float, steps: int = 0
) -> CRFTrainer: ...
def crf_update(trainer: CRFTrainer, crf: ForestCRF, gradients: Sequence[CRFGradient]) -> None: ...
def crf_finish(trainer: CRFTrainer, crf: ForestCRF) -> None: ...
def cell_pruner_loss(
    weights: _Vector[numpy.float64],
    bits: int,
    offsets: _Vector[numpy.int64],
    cell_offsets: _Vector[numpy.int64],
    tags: _Vector[numpy.int32],
    kinds: _Vector[numpy.int32],
    open: _Vector[numpy.bool_],
    gradient: _Vector[numpy.float64],
) -> float: ...
def cell_pruner_scores(
    weights: _Vector[numpy.float32],
    bits: int,
    offsets: _Vector[numpy.int64],
    cell_offsets: _Vector[numpy.int64],
    tags: _Vector[numpy.int32],
    kinds: _Vector[numpy.int32],
) -> NDArray[numpy.float32]: ...
def node_heights(left: _Vector[numpy.int32], right: _Vector[numpy.int32], height: _Vector[numpy.int32]) -> None: ...
def inside_pass(shard: object, weights: object, vectors: object, log_likelihoods: _Vector[numpy.float64]) -> None: ...
def outside_pass(shard: object, weights: object, log_likelihoods: _Vector[numpy.float64], vectors: object) -> None: ...
def expected_rules(
    shard: object, weights: object, vectors: object, first: int, last: int, expected: _Vector[numpy.float64]
) -> None: ...
def expected_inner(shard: object, weights: object, vectors: object, occupancy: _Vector[numpy.float64]) -> None: ...
def expected_leaves(
    shard: object,
    weights: object,
    vectors: object,
    slots: _Vector[numpy.int64],
    expected: _Vector[numpy.float64],
    occupancy: _Vector[numpy.float64],
) -> None: ...
def expected_roots(shard: object, weights: object, vectors: object, expected: _Vector[numpy.float64]) -> None: ...
def add_slots(
    numbers: _Vector[numpy.int64],
    slots: _Vector[numpy.int64],
    values: _Vector[numpy.float64],
    offsets: _Vector[numpy.int64],
    total: _Vector[numpy.float64],
) -> None: ...
def keep_whole(
    leaf: _Vector[numpy.bool_],
    root: _Vector[numpy.bool_],
    edges: _Matrix[numpy.int32],
    kept_edges: _Vector[numpy.bool_],
    kept_nodes: _Vector[numpy.bool_],
) -> None: ...
def share_out(
    edges: _Matrix[numpy.int32], share: _Vector[numpy.float64], posterior: _Vector[numpy.float64]
) -> None: ...

WORD_COLUMNS: int = 14
LONGEST_ENDING: int = 5
LONGEST_BEGINNING: int = 3

class FeatureGroup(enum.IntEnum):
    words = 1
    endings = 2
    tags = 4
    spelling = 8
    lengths = 16
    rules = 32
    splits = 64
    pairs = 128
    posteriors = 256
    classes = 512

class DenseWeight(enum.IntEnum):
    edge = 0
    parent = 1
    leaf = 2
    root = 3
    product_edge = 4
    product_parent = 5
    product_leaf = 6
    product_root = 7
    other_inner = 8
    other_leaf = 9

class ForestCRF:
    @property
    def weights(self) -> NDArray[numpy.float32]: ...
    @property
    def dense(self) -> NDArray[numpy.float64]: ...

class CRFSymbols:
    pass

def crf(
    weights: _Vector[numpy.float32], dense: _Vector[numpy.float64], threshold: float, groups: int, symbols: CRFSymbols
) -> ForestCRF: ...
def crf_symbols(
    symbol_key: _Vector[numpy.uint64],
    tag_key: _Vector[numpy.uint64],
    rule_key: _Vector[numpy.uint64],
    root: _Vector[numpy.float64],
    column: _Vector[numpy.int32],
    n_interminals: int,
) -> CRFSymbols: ...
def forest_sums(
    forest: Forest,
    edge_score: _Vector[numpy.float64],
    leaf_score: _Vector[numpy.float64],
    root_score: _Vector[numpy.float64],
) -> tuple[float, NDArray[numpy.float64], NDArray[numpy.float64]]: ...
def crf_chart(
    crf: ForestCRF,
    forest: Forest,
    nodes: _Vector[numpy.float64],
    edges: _Vector[numpy.float64],
    log_nodes: _Vector[numpy.float64] | None,
    log_edges: _Vector[numpy.float64] | None,
    members: int,
    words: _Matrix[numpy.uint32],
    spans: _Matrix[numpy.float32],
    tags: _Matrix[numpy.float32],
    workspace: Workspace,
) -> tuple[
    Forest,
    NDArray[numpy.int32],
    NDArray[numpy.int32],
    NDArray[numpy.float64],
    NDArray[numpy.float64],
    NDArray[numpy.float64],
    NDArray[numpy.float64],
    NDArray[numpy.float64],
    float,
]: ...

FREE: int = -1
FORBIDDEN: int = -2

class CoarseGrammar:
    pass

class Leaf:
    @property
    def symbols(self) -> NDArray[numpy.int32]: ...
    @property
    def values(self) -> NDArray[numpy.float64]: ...
    @property
    def fixed(self) -> bool: ...
    @property
    def kind(self) -> int: ...
    @kind.setter
    def kind(self, arg: int, /) -> None: ...
    def vector(self, number: int, symbol: int) -> NDArray[numpy.float64]: ...

class Forest:
    def arrays(
        self,
    ) -> tuple[
        int,
        NDArray[numpy.int64],
        NDArray[numpy.int32],
        NDArray[numpy.int32],
        NDArray[numpy.int32],
        NDArray[numpy.int32],
        NDArray[numpy.int64],
        NDArray[numpy.int32],
    ]: ...

class Workspace:
    def __init__(self) -> None: ...
    @property
    def rules_applied(self) -> int: ...
    def begin(self, bytes: int | None = None, seconds: float | None = None) -> None: ...
    def check_time(self) -> None: ...
    def check_room(self, bytes: int) -> None: ...
    def poison(self, byte: int) -> None: ...

class Decoder(enum.Enum):
    max_rule = 0
    max_rule_sum = 1
    recall = 2
    f1 = 3

def coarse_grammar(
    rules: object, pairs: object, boundaries: object, labels: object, root: _Vector[numpy.float64], n_interminals: int
) -> CoarseGrammar: ...
def set_cell_pruner(grammar: CoarseGrammar, weights: _Vector[numpy.float32], threshold: float) -> None: ...
def best_tags(grammar: CoarseGrammar, leaves: Sequence[Leaf], workspace: Workspace) -> NDArray[numpy.int32]: ...
def leaf(arrays: object, row: _Vector[numpy.float64], single: bool, floor: float, fixed: bool) -> Leaf: ...
def join_leaves(
    members: Sequence[Leaf], symbols: _Vector[numpy.int32], values: _Vector[numpy.float64], fixed: bool
) -> Leaf: ...
def forest(
    n: int,
    node_offsets: _Vector[numpy.int64],
    node_symbol: _Vector[numpy.int32],
    node_cell: _Vector[numpy.int32],
    group_parent: _Vector[numpy.int32],
    group_rule: _Vector[numpy.int32],
    group_offsets: _Vector[numpy.int64],
    children: _Matrix[numpy.int32],
) -> Forest: ...
def coarse_forest(
    grammar: CoarseGrammar,
    leaves: Sequence[Leaf],
    threshold: float,
    cells: _Vector[numpy.int32],
    allowed: _Matrix[numpy.bool_],
    prune_cells: bool,
    workspace: Workspace,
) -> Forest | None: ...
def filter_forest(
    forest: Forest, n_interminals: int, threshold: float, posterior: _Vector[numpy.float64], workspace: Workspace
) -> Forest | None: ...
def best_by_edges(
    forest: Forest, leaf_score: _Vector[numpy.float64], score: _Vector[numpy.float64], gain: _Vector[numpy.float64]
) -> tuple[NDArray[numpy.float64], NDArray[numpy.int64]]: ...
def k_best_by_scores(
    forest: Forest,
    n_interminals: int,
    leaf_score: _Vector[numpy.float64],
    edge_score: _Vector[numpy.float64],
    root_score: _Vector[numpy.float64],
    count: int,
    workspace: Workspace,
) -> tuple[NDArray[numpy.int32], NDArray[numpy.float64], float]: ...
def phrase_scores(
    forest: Forest, grammar: CoarseGrammar, node_posterior: _Vector[numpy.float64]
) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]: ...
def estimate_merits(
    grammar: CoarseGrammar, leaves: Sequence[Leaf]
) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.int64], NDArray[numpy.int64], float, int]: ...
def coarse_entries(
    grammar: CoarseGrammar, leaves: Sequence[Leaf], threshold: float
) -> tuple[int, Forest, NDArray[numpy.int32], NDArray[numpy.float64], NDArray[numpy.int64], NDArray[numpy.float64]]: ...

class FineGrammarSingle:
    @property
    def n_pairs(self) -> int: ...
    @property
    def n_weights(self) -> int: ...
    @property
    def n_dense(self) -> int: ...

class EngineSingle:
    def parse(
        self,
        leaves: Sequence[Leaf],
        threshold: float,
        level: float,
        negligible: float,
        unseen: float,
        cells: _Vector[numpy.int32],
        allowed: _Matrix[numpy.bool_],
        prune_cells: bool,
        decoder: Decoder,
        crf: ForestCRF | None,
        words: _Matrix[numpy.uint32],
        spans: _Matrix[numpy.float32],
        tags: _Matrix[numpy.float32],
        span_scorer: SpanScorer | None,
        features: _Matrix[numpy.int32],
        prune_below: float,
        workspace: Workspace,
    ) -> tuple[NDArray[numpy.int32], float] | None: ...

def fine_grammar(arrays: object, least: float, owner: object) -> FineGrammarSingle | FineGrammarDouble: ...
def add_level(
    leaf: Leaf, level: object, fine_offsets: _Vector[numpy.int64], level_offsets: _Vector[numpy.int64]
) -> None: ...
@overload
def fine_chart(
    grammar: FineGrammarSingle,
    leaves: Sequence[Leaf],
    row: int,
    forest: Forest,
    negligible: float,
    workspace: Workspace,
) -> tuple[
    float,
    NDArray[numpy.float64],
    NDArray[numpy.float64],
    NDArray[numpy.int64],
    NDArray[numpy.float32],
    NDArray[numpy.float32],
    NDArray[numpy.int64],
]: ...
@overload
def fine_chart(
    grammar: FineGrammarDouble,
    leaves: Sequence[Leaf],
    row: int,
    forest: Forest,
    negligible: float,
    workspace: Workspace,
) -> tuple[
    float,
    NDArray[numpy.float64],
    NDArray[numpy.float64],
    NDArray[numpy.int64],
    NDArray[numpy.float64],
    NDArray[numpy.float64],
    NDArray[numpy.int64],
]: ...
@overload
def viterbi(
    grammar: FineGrammarSingle,
    forest: Forest,
    n_interminals: int,
    offsets: _Vector[numpy.int64],
    inside: _Vector[numpy.float32],
) -> tuple[NDArray[numpy.int64], NDArray[numpy.bool_]]: ...
@overload
def viterbi(
    grammar: FineGrammarDouble,
    forest: Forest,
    n_interminals: int,
    offsets: _Vector[numpy.int64],
    inside: _Vector[numpy.float64],
) -> tuple[NDArray[numpy.int64], NDArray[numpy.bool_]]: ...
@overload
def k_best_of_grammars(
    forest: Forest,
    n_interminals: int,
    grammars: Sequence[FineGrammarSingle],
    charts: Sequence[object],
    log_nodes: _Vector[numpy.float64],
    log_edges: _Vector[numpy.float64],
    log_probability: float,
    count: int,
    limit: int,
    workspace: Workspace,
) -> tuple[NDArray[numpy.int32], NDArray[numpy.float64], float]: ...
@overload
def k_best_of_grammars(
    forest: Forest,
    n_interminals: int,
    grammars: Sequence[FineGrammarDouble],
    charts: Sequence[object],
    log_nodes: _Vector[numpy.float64],
    log_edges: _Vector[numpy.float64],
    log_probability: float,
    count: int,
    limit: int,
    workspace: Workspace,
) -> tuple[NDArray[numpy.int32], NDArray[numpy.float64], float]: ...
@overload
def cluster_states(
    rules: _Matrix[numpy.int32],
    state_offsets: _Vector[numpy.int64],
    tensor_offsets: _Vector[numpy.int64],
    tensors: _Vector[numpy.float32],
    occupancy: _Vector[numpy.float64],
    k: int,
) -> NDArray[numpy.int64]: ...
@overload
def cluster_states(
    rules: _Matrix[numpy.int32],
    state_offsets: _Vector[numpy.int64],
    tensor_offsets: _Vector[numpy.int64],
    tensors: _Vector[numpy.float64],
    occupancy: _Vector[numpy.float64],
    k: int,
) -> NDArray[numpy.int64]: ...
@overload
def mask_above(values: _Vector[numpy.float32], factors: _Vector[numpy.float32], limit: float) -> int: ...
@overload
def mask_above(values: _Vector[numpy.float64], factors: _Vector[numpy.float64], limit: float) -> int: ...
@overload
def project_tensors(
    places: _Matrix[numpy.int64],
    sizes: _Matrix[numpy.int64],
    offsets: _Vector[numpy.int64],
    tensors: _Vector[numpy.float32],
    groups: _Vector[numpy.int64],
    shares: _Vector[numpy.float64],
    new_sizes: _Matrix[numpy.int64],
    new_offsets: _Vector[numpy.int64],
    result: _Vector[numpy.float64],
) -> None: ...
@overload
def project_tensors(
    places: _Matrix[numpy.int64],
    sizes: _Matrix[numpy.int64],
    offsets: _Vector[numpy.int64],
    tensors: _Vector[numpy.float64],
    groups: _Vector[numpy.int64],
    shares: _Vector[numpy.float64],
    new_sizes: _Matrix[numpy.int64],
    new_offsets: _Vector[numpy.int64],
    result: _Vector[numpy.float64],
) -> None: ...
@overload
def engine(
    coarse: CoarseGrammar,
    members: Sequence[FineGrammarSingle],
    levels: Sequence[FineGrammarSingle],
    counted: Sequence[bool],
) -> EngineSingle: ...
@overload
def engine(
    coarse: CoarseGrammar,
    members: Sequence[FineGrammarDouble],
    levels: Sequence[FineGrammarDouble],
    counted: Sequence[bool],
) -> EngineDouble: ...

class FineGrammarDouble:
    @property
    def n_pairs(self) -> int: ...
    @property
    def n_weights(self) -> int: ...
    @property
    def n_dense(self) -> int: ...

class EngineDouble:
    def parse(
        self,
        leaves: Sequence[Leaf],
        threshold: float,
        level: float,
        negligible: float,
        unseen: float,
        cells: _Vector[numpy.int32],
        allowed: _Matrix[numpy.bool_],
        prune_cells: bool,
        decoder: Decoder,
        crf: ForestCRF | None,
        words: _Matrix[numpy.uint32],
        spans: _Matrix[numpy.float32],
        tags: _Matrix[numpy.float32],
        span_scorer: SpanScorer | None,
        features: _Matrix[numpy.int32],
        prune_below: float,
        workspace: Workspace,
    ) -> tuple[NDArray[numpy.int32], float] | None: ...

def sum_heads(
    sentences: object,
    weights: object,
    span_weights: _Vector[numpy.float64],
    times: _Vector[numpy.float64],
    counts: object,
    posteriors: _Vector[numpy.float64],
    edges: _Vector[numpy.float64],
) -> NDArray[numpy.float64]: ...
def sum_constituents(
    sentences: object,
    weights: object,
    span_weights: _Vector[numpy.float64],
    times: _Vector[numpy.float64],
    counts: object,
    posteriors: _Vector[numpy.float64],
    occupancy: _Vector[numpy.float64],
) -> NDArray[numpy.float64]: ...
def sum_low_rank(
    sentences: object,
    weights: object,
    span_weights: _Vector[numpy.float64],
    times: _Vector[numpy.float64],
    counts: object,
    posteriors: _Vector[numpy.float64],
    occupancy: _Vector[numpy.float64],
) -> NDArray[numpy.float64]: ...
def sum_independent(
    sentences: object,
    weights: object,
    span_weights: _Vector[numpy.float64],
    times: _Vector[numpy.float64],
    counts: object,
    posteriors: _Vector[numpy.float64],
    occupancy: _Vector[numpy.float64],
) -> NDArray[numpy.float64]: ...
def best_spans(offsets: _Vector[numpy.int64], scores: _Vector[numpy.float64]) -> NDArray[numpy.int32]: ...
def best_heads(offsets: _Vector[numpy.int64], scores: _Vector[numpy.float64]) -> NDArray[numpy.int32]: ...

variant: str
