// Memory that is kept from one sentence to the next, and how much of it and of time a sentence may take.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

namespace sapwood {

// Larger pieces (of very long sentences) are given back.
constexpr std::size_t keep_bytes = std::size_t{1} << 26;

// How much to ask for, so that slightly longer sentences need not ask again. What will be given back needs no room to
// spare; and where indices are checked there is none, so that what reaches beyond is found.
template <class T> std::size_t with_room(std::size_t size) {
#ifdef SAPWOOD_CHECKED
    return size;
#else
    return size * sizeof(T) > keep_bytes ? size : size + size / 2;
#endif
}

struct OutOfMemory : std::bad_alloc {};  // Python's MemoryError, as any other lack of memory
struct TimedOut {};

// What a sentence may take. It is charged for what it asks for and not for what happens to be allocated already: whether
// a sentence fits does not depend on those before it.
struct Budget {
    using Clock = std::chrono::steady_clock;
    std::size_t bytes = std::numeric_limits<std::size_t>::max(), used = 0;
    bool timed = false;
    Clock::time_point deadline;

    // Charge `size` bytes in place of the `held` ones that were charged for the same thing before.
    void charge(std::size_t &held, std::size_t size) {
        used += size - held;
        held = size;
        if (used > bytes) throw OutOfMemory();
    }
    // Whether there is room for so many bytes more, of what is not kept in buffers of ours.
    void check_room(std::size_t more) const {
        if (used > bytes || more > bytes - used) throw OutOfMemory();
    }
    void check_time() const {
        if (timed && Clock::now() > deadline) throw TimedOut();
    }
};

// An array whose memory is used again. What it holds after `acquire` is whatever was there before.
template <class T> class Buffer {
  public:
    T *acquire(std::size_t size) {
        const std::size_t room = with_room<T>(size);
        charge(room);
        if (size > capacity_) {
            data_.reset();
            capacity_ = 0;
            data_.reset(new T[room]);
            capacity_ = room;
        }
        return data_.get();
    }
    // As `acquire`, but the first `used` elements stay.
    T *grow(std::size_t size, std::size_t used) {
        const std::size_t room = size + size / 2;  // always, or large arrays would be copied again and again
        charge(room);
        if (size > capacity_) {
            std::unique_ptr<T[]> larger(new T[room]);
            if (used) std::memcpy(larger.get(), data_.get(), used * sizeof(T));
            data_ = std::move(larger);
            capacity_ = room;
        }
        return data_.get();
    }
    T *data() const { return data_.get(); }
    T &operator[](std::size_t i) const { return data_[i]; }
    void trim() {
        if (capacity_ * sizeof(T) > keep_bytes) {
            data_.reset();
            capacity_ = 0;
        }
    }
    // Begin a sentence with this budget.
    void begin(Budget *budget) {
        budget_ = budget;
        held_ = 0;
    }
    // Fill with numbers that lead nowhere: results must not depend on what was there before.
    void poison(unsigned char byte) {
        if (capacity_) std::memset(static_cast<void *>(data_.get()), byte, capacity_ * sizeof(T));
    }

  private:
    std::unique_ptr<T[]> data_;
    std::size_t capacity_ = 0, held_ = 0;
    Budget *budget_ = nullptr;

    void charge(std::size_t size) {
        if (budget_) budget_->charge(held_, size * sizeof(T));
    }
};

}  // namespace sapwood
