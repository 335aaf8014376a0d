// Memory that is kept from one sentence to the next.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>

namespace sapwood {

// Larger pieces (of very long sentences) are given back.
constexpr std::size_t keep_bytes = std::size_t{1} << 26;

// How much to ask for, so that slightly longer sentences need not ask again. Where indices are checked there is nothing
// to spare, and what reaches beyond is found.
inline std::size_t with_room(std::size_t size) {
#ifdef SAPWOOD_CHECKED
    return size;
#else
    return size + size / 2;
#endif
}

// An array whose memory is used again. What it holds after `take` is whatever was there before.
template <class T> class Buffer {
  public:
    T *take(std::size_t size) {
        if (size > capacity_) {
            data_.reset();
            capacity_ = 0;
            data_.reset(new T[with_room(size)]);
            capacity_ = with_room(size);
        }
        return data_.get();
    }
    // As `take`, but the first `used` elements stay.
    T *grow(std::size_t size, std::size_t used) {
        if (size > capacity_) {
            std::unique_ptr<T[]> larger(new T[with_room(size)]);
            if (used) std::memcpy(larger.get(), data_.get(), used * sizeof(T));
            data_ = std::move(larger);
            capacity_ = with_room(size);
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
    // Fill with numbers that lead nowhere: results must not depend on what was there before.
    void poison(unsigned char byte) {
        if (capacity_) std::memset(static_cast<void *>(data_.get()), byte, capacity_ * sizeof(T));
    }

  private:
    std::unique_ptr<T[]> data_;
    std::size_t capacity_ = 0;
};

}  // namespace sapwood
