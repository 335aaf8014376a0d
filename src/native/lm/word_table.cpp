// Bytes into words: a hash table that numbers words in the order in which it meets them, and tokenises by the way.
//
// Words are separated by bytes up to 32: white space and control characters. A word of at most eight bytes is its own
// key, the bytes one behind the other in 64 bits (none is zero, so this is injective and a key of zero marks a free
// slot); a longer word's key is a hash, and its bytes are compared. Where words stand in the table depends on a secret
// number, so that nobody can write a text whose words all meet in one place; the words' own numbers do not.
#ifdef _MSC_VER
#include <intrin.h>
#endif

#include <algorithm>
#include <tuple>
#include <vector>

#include "core/views.hpp"
#include "lm/lm.hpp"

namespace sapwood {
namespace {

// Words of more bytes are no words.
constexpr Index LONGEST_WORD = 1 << 20;
// Bytes of text whose words are looked up together.
constexpr Index STRIDE = 8192;
// The longest word that is its own key.
constexpr Index SHORT = 8;

// Return the eight bytes from `at`, the first one lowest.
uint64_t eight(const uint8_t *at) {
    uint64_t value = 0;
    for (int k = 0; k < 8; ++k) value |= static_cast<uint64_t>(at[k]) << (8 * k);
    return value;
}

// Return the product with a secret number, its upper half folded onto the lower one.
uint64_t folded(uint64_t value, uint64_t secret) {
#ifdef _MSC_VER
    uint64_t upper;
    return _umul128(value, secret, &upper) ^ upper;
#else
    const auto product = static_cast<unsigned __int128>(value) * secret;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
#endif
}

// The bytes of a word, at least one.
struct Word {
    const uint8_t *begin;
    Index length;

    bool is_long() const { return length > SHORT; }

    // Return the key, never zero. `readable` bytes from `begin` on may be read.
    uint64_t key(Index readable, uint64_t secret) const {
        if (is_long()) return hash(secret);
        if (readable >= SHORT) return eight(begin) & (~uint64_t{0} >> (64 - 8 * length));
        uint64_t value = 0;
        for (Index k = 0; k < length; ++k) value |= static_cast<uint64_t>(begin[k]) << (8 * k);
        return value;
    }
    uint64_t hash(uint64_t secret) const {
        uint64_t key = ~secret + static_cast<uint64_t>(length);
        const uint8_t *last = begin + length - 8;
        for (const uint8_t *at = begin; at < last; at += 8) key = folded(key ^ eight(at), secret);
        return folded(key ^ eight(last), secret) | 1;
    }
    bool operator==(const Word &other) const {
        return length == other.length && std::equal(begin, begin + length, other.begin);
    }
};

// Words by number. Number 0 is the line end, which no bytes spell.
class WordTable {
  public:
    // Make a table with room for so many words and letters, which is no limit.
    WordTable(Index words, Index letters, uint64_t seed) : secret(seed | 1) {
        starts.reserve(static_cast<std::size_t>(words) + 1);
        counts.reserve(static_cast<std::size_t>(words));
        arena.reserve(static_cast<std::size_t>(letters));
        arena.push_back('\n');
        starts = {0, 1};
        counts = {0};
        make_slots(words);
    }
    Index size() const { return static_cast<Index>(starts.size()) - 1; }
    Array<int64_t> get_counts() const { return to_array(counts); }

    std::tuple<Array<int32_t>, Index, Index> tokenise(Vector<const uint8_t> text, bool lines);
    Array<int64_t> add_words(Vector<const uint8_t> letters, Vector<const int64_t> ends);
    Array<int64_t> add_table(const WordTable &other);
    Index find(Vector<const uint8_t> text, uint64_t key) const;
    std::pair<uint64_t, Index> slot(Index place) const;
    Array<uint8_t> spell(Vector<const int64_t> numbers) const;
    Array<uint8_t> letters_from(Index number) const;
    void forget(Index words);

  private:
    // A key, and twice the word's number plus whether it is long.
    struct Slot {
        uint64_t key = 0, value = 0;
    };
    // The words of a stride of text: where they end and begin, their keys, and the slots where they belong.
    struct Stride {
        std::vector<Index> ends, begins;
        std::vector<uint64_t> keys;
        std::vector<Slot> slots;

        Stride() : ends(STRIDE + 1), begins(STRIDE + 1), keys(STRIDE + 1), slots(STRIDE + 1) {}
        Index fill(const uint8_t *text, Index at, Index stop, Index size, Index &start, const WordTable &words);
    };

    const uint64_t secret;
    std::vector<Slot> slots;
    int shift = 0;                // what a key's product is shifted by to get its slot
    std::vector<uint8_t> arena;   // the bytes of all words, each with a line end behind it
    std::vector<int64_t> starts;  // where each begins, and one more
    std::vector<int64_t> counts;
    std::vector<int32_t> ids;  // what `tokenise` found

    Word word(Index number) const { return {arena.data() + starts[number], starts[number + 1] - 1 - starts[number]}; }
    uint64_t key_of(Index number) const { return key_of(word(number), static_cast<Index>(arena.size()) - starts[number]); }
    uint64_t key_of(const Word &word, Index readable) const { return word.key(readable, secret); }
    Index home(uint64_t key) const { return static_cast<Index>((key * secret) >> shift); }
    Index next(Index place) const { return (place + 1) & (static_cast<Index>(slots.size()) - 1); }
    Index place_of(const Word &word, uint64_t key) const;
    Index number_of(const Word &word, uint64_t key);
    void make_slots(Index words);
};

// Make slots for at least so many words, and put those of the table in.
void WordTable::make_slots(Index words) {
    int bits = 4;
    while ((Index{1} << bits) < 2 * words) ++bits;
    slots.assign(std::size_t{1} << bits, {});
    shift = 64 - bits;
    for (Index number = 1; number < size(); ++number) {
        const Word each = word(number);
        const uint64_t key = key_of(number);
        Index place = home(key);
        while (slots[place].key) place = next(place);
        slots[place] = {key, static_cast<uint64_t>(2 * number + each.is_long())};
    }
}

// Return the slot of a word, or the free one where it belongs.
Index WordTable::place_of(const Word &word, uint64_t key) const {
    Index place = home(key);
    for (; slots[place].key; place = next(place)) {
        if (slots[place].key != key) continue;
        const uint64_t value = slots[place].value;
        if (word.is_long() != static_cast<bool>(value & 1)) continue;
        if (!word.is_long() || this->word(static_cast<Index>(value >> 1)) == word) break;
    }
    return place;
}

// Return the number of a word, which is added if it is new.
Index WordTable::number_of(const Word &word, uint64_t key) {
    const Index place = place_of(word, key);
    if (slots[place].key) return static_cast<Index>(slots[place].value >> 1);
    const Index number = size();
    arena.insert(arena.end(), word.begin, word.begin + word.length);
    arena.push_back('\n');
    starts.push_back(static_cast<int64_t>(arena.size()));
    counts.push_back(0);
    slots[place] = {key, static_cast<uint64_t>(2 * number + word.is_long())};
    if (2 * size() > static_cast<Index>(slots.size())) make_slots(2 * size());
    return number;
}

// Find the words of `text[at:stop]` and what is in their slots; return how many separators there are. The first word
// begins at `start`, which moves on to where the next stride's first word does; a word may be empty, with a key of
// zero.
Index WordTable::Stride::fill(const uint8_t *text, Index at, Index stop, Index size, Index &start, const WordTable &words) {
    Index n = 0;
    for (; at < stop; ++at) {
        ends[n] = at;
        n += text[at] <= 32;
    }
    for (Index i = 0; i < n; ++i) {
        begins[i] = start;
        keys[i] = ends[i] == start ? 0 : words.key_of({text + start, ends[i] - start}, size - start);
        start = ends[i] + 1;
    }
    for (Index i = 0; i < n; ++i) slots[i] = words.slots[words.home(keys[i])];
    return n;
}

// Return the numbers of the words of a text that ends with a separator, adding words that are new; how many line ends
// there are; and where it stopped: -1, or the place of a zero byte or of a word that is too long. With `lines` each
// line end is a 0 among the numbers.
//
// It goes by strides: first all separators of one are found, then the keys of all its words computed, then all are
// looked up, so that the processor waits for many places of the table at a time.
std::tuple<Array<int32_t>, Index, Index> WordTable::tokenise(Vector<const uint8_t> text, bool lines) {
    const Index size = text.size();
    if (static_cast<Index>(ids.size()) < size) ids.resize(static_cast<std::size_t>(size));
    Stride stride;
    Index start = 0, written = 0, line_ends = 0, stopped = -1;
    for (Index at = 0; at < size && stopped < 0; at += STRIDE) {
        const Index n = stride.fill(text.data, at, std::min(at + STRIDE, size), size, start, *this);
        for (Index i = 0; i < n && stopped < 0; ++i) {
            const uint64_t key = stride.keys[i];
            const Word word{text.data + stride.begins[i], stride.ends[i] - stride.begins[i]};
            const uint8_t separator = text[stride.ends[i]];
            if (word.length > LONGEST_WORD) {
                stopped = stride.begins[i];
                continue;
            }
            if (key) {
                const Slot there = stride.slots[i];
                const bool found = there.key == key && !(there.value & 1) && !word.is_long();
                const Index number = found ? static_cast<Index>(there.value >> 1) : number_of(word, key);
                ++counts[number];
                ids[written++] = static_cast<int32_t>(number);
            }
            if (separator == '\n') {
                ++line_ends;
                if (lines) ids[written++] = 0;
            } else if (separator == 0) {
                stopped = stride.ends[i];
            }
        }
    }
    counts[0] += line_ends;
    Array<int32_t> result(written);
    std::copy_n(ids.begin(), written, result.data.get());
    return {std::move(result), line_ends, stopped};
}

// Add words given as their letters, one behind the other, and where each ends; return their numbers.
Array<int64_t> WordTable::add_words(Vector<const uint8_t> letters, Vector<const int64_t> ends) {
    Array<int64_t> numbers(ends.size());
    Index begin = 0;
    for (Index i = 0; i < ends.size(); ++i) {
        const Word word{letters.data + begin, ends[i] - begin};
        numbers[i] = number_of(word, key_of(word, letters.size() - begin));
        begin = ends[i];
    }
    return numbers;
}

// Add the words of another table with their counts; return which number each of its numbers has here.
Array<int64_t> WordTable::add_table(const WordTable &other) {
    Array<int64_t> numbers(other.size());
    for (Index i = 0; i < other.size(); ++i) {
        const Index readable = static_cast<Index>(other.arena.size()) - other.starts[i];
        numbers[i] = i ? number_of(other.word(i), key_of(other.word(i), readable)) : 0;
        counts[numbers[i]] += other.counts[i];
    }
    return numbers;
}

// Return the slot in which a text would be looked for as one word with some key, for tests.
Index WordTable::find(Vector<const uint8_t> text, uint64_t key) const { return place_of({text.data, text.size()}, key); }

// Return the key and the number that are in a slot, for tests; both are 0 in a free one.
std::pair<uint64_t, Index> WordTable::slot(Index place) const {
    const Slot &there = slots.at(static_cast<std::size_t>(place));
    return {there.key, static_cast<Index>(there.value >> 1)};
}

// Return the bytes of some words, each with its line end, one behind the other.
Array<uint8_t> WordTable::spell(Vector<const int64_t> numbers) const {
    Index size = 0;
    for (Index i = 0; i < numbers.size(); ++i) size += starts[numbers[i] + 1] - starts[numbers[i]];
    Array<uint8_t> result(size);
    uint8_t *at = result.data.get();
    for (Index i = 0; i < numbers.size(); ++i)
        at = std::copy(arena.data() + starts[numbers[i]], arena.data() + starts[numbers[i] + 1], at);
    return result;
}

// Return the bytes of all words from a number on, each with its line end.
Array<uint8_t> WordTable::letters_from(Index number) const {
    Array<uint8_t> result(static_cast<Index>(arena.size()) - starts[number]);
    std::copy(arena.begin() + starts[number], arena.end(), result.data.get());
    return result;
}

// Keep only the first so many numbers.
void WordTable::forget(Index words) {
    counts.resize(static_cast<std::size_t>(words));
    starts.resize(static_cast<std::size_t>(words) + 1);
    arena.resize(static_cast<std::size_t>(starts[words]));
    make_slots(static_cast<Index>(slots.size()) / 2);
}

}  // namespace

void bind_word_table(nb::module_ &module) {
    module.attr("LONGEST_WORD") = LONGEST_WORD;
    nb::class_<WordTable>(module, "WordTable")
        .def(nb::init<Index, Index, uint64_t>(), "words"_a, "letters"_a, "seed"_a)
        .def("__len__", &WordTable::size)
        .def("counts", &WordTable::get_counts, unlocked())
        .def("tokenise", &WordTable::tokenise, "text"_a, "lines"_a, unlocked())
        .def("add_words", &WordTable::add_words, "letters"_a, "ends"_a, unlocked())
        .def("add_table", &WordTable::add_table, "other"_a, unlocked())
        .def("find", &WordTable::find, "text"_a, "key"_a)
        .def("slot", &WordTable::slot, "place"_a)
        .def("spell", &WordTable::spell, "numbers"_a, unlocked())
        .def("letters_from", &WordTable::letters_from, "number"_a, unlocked())
        .def("forget", &WordTable::forget, "words"_a, unlocked());
}

}  // namespace sapwood
