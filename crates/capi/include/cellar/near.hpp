// Cellar's local store and near cache for C++17.
//
// cellar::Local<K, T>   a bounded store of typed values in this process
// cellar::Near<T>       the same in front of a server, which sends invalidations
// cellar::Held<T>       a value of either, like a shared_ptr<const T>; nothing is copied
// cellar::Result<T>     a value or an Error; only std::string may throw here
//
// If several threads miss a key, one runs its loader and all get the result. An exception of a
// loader or a codec becomes an Error for all of them. The guide is docs/near-cxx.md.

#ifndef CELLAR_NEAR_HPP
#define CELLAR_NEAR_HPP

#include <cellar/near.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace cellar {

// The status of a call; near.h documents each value.
enum class Status : cellar_status {
    ok = CELLAR_OK,
    none = CELLAR_NONE,
    bad_argument = CELLAR_BAD_ARGUMENT,
    panic = CELLAR_PANIC,
    loader = CELLAR_LOADER,
    timeout = CELLAR_TIMEOUT,
    own_load = CELLAR_OWN_LOAD,
    connection = CELLAR_CONNECTION,
    refused = CELLAR_REFUSED,
    protocol = CELLAR_PROTOCOL,
    codec = CELLAR_CODEC,
    key_too_long = CELLAR_KEY_TOO_LONG,
    thread = CELLAR_THREAD,
    other = CELLAR_OTHER,
};

// The reason why there is no value.
class Error {
public:
    Error(Status status, std::string text) : status_(status), text_(std::move(text)) {}

    Status status() const noexcept { return status_; }
    const std::string& text() const noexcept { return text_; }

private:
    Status status_;
    std::string text_;
};

// A value or an Error. `value()` of an error and `error()` of a value are undefined.
template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : either_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : either_(std::in_place_index<1>, std::move(error)) {}

    bool ok() const noexcept { return either_.index() == 0; }
    explicit operator bool() const noexcept { return ok(); }

    T& value() & noexcept { return *std::get_if<0>(&either_); }
    const T& value() const& noexcept { return *std::get_if<0>(&either_); }
    T&& value() && noexcept { return std::move(*std::get_if<0>(&either_)); }
    const Error& error() const noexcept { return *std::get_if<1>(&either_); }

private:
    std::variant<T, Error> either_;
};

template <>
class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error error) : error_(std::move(error)) {}

    bool ok() const noexcept { return !error_; }
    explicit operator bool() const noexcept { return ok(); }
    const Error& error() const noexcept { return *error_; }

private:
    std::optional<Error> error_;
};

using Milliseconds = std::chrono::milliseconds;

namespace detail {

inline std::uint64_t count(std::optional<Milliseconds> time) noexcept {
    if (!time) return CELLAR_UNSET;
    return time->count() < 0 ? 0 : static_cast<std::uint64_t>(time->count());
}

inline Error error_of(cellar_status status, const cellar_error& told) {
    return Error(static_cast<Status>(status), told.text);
}

inline void tell(cellar_error* error, cellar_status status, std::string_view text) noexcept {
    const std::size_t length = std::min<std::size_t>(text.size(), sizeof error->text - 1);
    error->status = status;
    std::memcpy(error->text, text.data(), length);
    error->text[length] = '\0';
}

// Runs `work`, which returns a status; an exception becomes `failed` and a text.
template <class Work>
cellar_status guarded(cellar_error* error, cellar_status failed, Work&& work) noexcept {
    try {
        return work();
    } catch (const std::exception& thrown) {
        tell(error, failed, thrown.what());
    } catch (...) {
        tell(error, failed, "an exception that is no std::exception");
    }
    return failed;
}

inline cellar_key key_of(std::string_view key) noexcept {
    return {reinterpret_cast<const std::uint8_t*>(key.data()), key.size()};
}

inline cellar_bytes bytes_of(std::string_view text) noexcept {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// A value that is its own token has its count before it; this header changes it directly.
inline std::uint64_t* count_of(const cellar_held& held) noexcept {
    if (held.token != held.value) return nullptr;
    auto* token = static_cast<unsigned char*>(const_cast<void*>(held.token));
    return reinterpret_cast<std::uint64_t*>(token - CELLAR_COUNT_BEFORE);
}

inline void retain(const cellar_held& held) noexcept {
    std::uint64_t* count = count_of(held);
    if (!count) return held.holder->retain(held.token);
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

inline void release(const cellar_held& held) noexcept {
    std::uint64_t* count = count_of(held);
    if (!count) return held.holder->release(held.token);
    if (__atomic_fetch_sub(count, 1, __ATOMIC_RELEASE) == 1) held.holder->end(held.token);
}

// The content of a slot: a T, or a pointer to it if it is too large.
template <class T>
struct Room {
    static constexpr bool is_inline =
        sizeof(T) <= CELLAR_VALUE_BYTES_MAX && alignof(T) <= CELLAR_VALUE_ALIGNMENT_MAX;
    using Stored = std::conditional_t<is_inline, T, T*>;

    static void end(void* slot) noexcept {
        if constexpr (is_inline) {
            static_cast<T*>(slot)->~T();
        } else {
            delete *static_cast<T**>(slot);
        }
    }

    static void make(void* slot, T&& value) {
        if constexpr (is_inline) {
            ::new (slot) T(std::move(value));
        } else {
            ::new (slot) T*(new T(std::move(value)));
        }
    }

    static const T* at(const void* slot) noexcept {
        if constexpr (is_inline) {
            return static_cast<const T*>(slot);
        } else {
            return slot ? *static_cast<T* const*>(slot) : nullptr;
        }
    }

    static cellar_value_type type() noexcept {
        constexpr bool is_plain = is_inline && std::is_trivially_destructible_v<T>;
        return {sizeof(Stored), alignof(Stored), is_plain ? nullptr : &end};
    }
};

// A draft: a value that the store does not own yet.
template <class T>
class Draft {
public:
    Draft() noexcept = default;
    Draft(const Draft&) = delete;
    Draft& operator=(const Draft&) = delete;
    ~Draft() {
        if (draft_.slot && is_made_) Room<T>::end(draft_.slot);
        cellar_draft_free(&draft_, nullptr);
    }

    void make(T&& value) {
        Room<T>::make(draft_.slot, std::move(value));
        is_made_ = true;
    }

    // For functions that fill or take the draft; after one has taken it, it is empty.
    cellar_draft* out() noexcept { return &draft_; }

    cellar_draft hand_over() noexcept { return std::exchange(draft_, {nullptr, nullptr}); }

private:
    cellar_draft draft_{nullptr, nullptr};
    bool is_made_ = false;
};

}  // namespace detail

// A held value, like a std::shared_ptr<const T>: it lives until its last holder is gone, whatever
// the cache does. It is cheap to copy, cheaper to move, and empty if there is no value.
template <class T>
class Held {
public:
    Held() noexcept = default;
    // Takes ownership of a value that a function of near.h has returned.
    explicit Held(cellar_held held) noexcept : held_(held) {}
    Held(const Held& other) noexcept : held_(other.held_) {
        if (held_.value) detail::retain(held_);
    }
    Held(Held&& other) noexcept : held_(std::exchange(other.held_, none)) {}
    Held& operator=(Held other) noexcept {
        std::swap(held_, other.held_);
        return *this;
    }
    ~Held() {
        if (held_.value) detail::release(held_);
    }

    explicit operator bool() const noexcept { return held_.value != nullptr; }
    const T* get() const noexcept { return detail::Room<T>::at(held_.value); }
    const T& operator*() const noexcept { return *get(); }
    const T* operator->() const noexcept { return get(); }

    // Whether it is out of date and was returned because the server failed.
    bool is_stale() const noexcept { return held_.value && held_.holder->is_stale; }

    // Returns it as a shared_ptr: one allocation, the value is not copied.
    std::shared_ptr<const T> shared() const {
        if (!*this) return nullptr;
        auto holder = std::make_shared<const Held>(*this);
        const T* value = holder->get();
        return std::shared_ptr<const T>(std::move(holder), value);
    }

private:
    static constexpr cellar_held none{nullptr, nullptr, nullptr};
    cellar_held held_ = none;
};

// The result of a loader with options: the TTL of the value, and its bytes outside of itself.
template <class T>
struct Made {
    T value;
    std::optional<Milliseconds> ttl = std::nullopt;
    std::uint64_t more_bytes = 0;
};

namespace detail {

// Converts the result of a loader for the C interface.
template <class T>
struct Taking {
    Draft<T>& draft;
    cellar_loaded* made;
    cellar_error* error;

    cellar_status take(T value) {
        draft.make(std::move(value));
        made->draft = draft.hand_over();
        return CELLAR_OK;
    }

    cellar_status take(Made<T> given) {
        made->ttl_ms = count(given.ttl);
        made->more_bytes = given.more_bytes;
        return take(std::move(given.value));
    }

    template <class U>
    cellar_status take(std::optional<U> given) {
        return given ? take(std::move(*given)) : CELLAR_NONE;
    }

    template <class U>
    cellar_status take(Result<U> given) {
        if (given) return take(std::move(given).value());
        const auto status = static_cast<cellar_status>(given.error().status());
        const bool is_one = status != CELLAR_OK && status != CELLAR_NONE;
        tell(error, is_one ? status : CELLAR_LOADER, given.error().text());
        return error->status;
    }
};

// Wraps a C++ loader for the C interface. `Source` creates drafts.
template <class T, class Source, class Loader>
struct Loading {
    const Source& source;
    Loader& loader;

    static cellar_status run(void* context, cellar_loaded* made, cellar_error* error) noexcept {
        return guarded(error, CELLAR_LOADER, [&]() -> cellar_status {
            auto& self = *static_cast<Loading*>(context);
            Draft<T> draft;
            const cellar_status status = self.source.draft(draft.out(), error);
            if (status != CELLAR_OK) return status;
            Taking<T> taking{draft, made, error};
            return taking.take(self.loader());
        });
    }
};

template <class T>
Result<Held<T>> found(cellar_status status, cellar_held held, const cellar_error& told) {
    if (status == CELLAR_OK) return Held<T>(held);
    if (status == CELLAR_NONE) return Held<T>();
    return error_of(status, told);
}

inline Result<void> done(cellar_status status, const cellar_error& told) {
    if (status == CELLAR_OK) return {};
    return error_of(status, told);
}

inline Result<bool> whether(cellar_status status, const cellar_error& told) {
    if (status == CELLAR_OK || status == CELLAR_NONE) return status == CELLAR_OK;
    return error_of(status, told);
}

// The key type of a store, and the type for look-ups.
template <class K>
struct Keys;

template <>
struct Keys<std::string> {
    using Look = std::string_view;
    static constexpr std::int32_t kind = CELLAR_KEYS_BYTES;
    static cellar_key of(Look key) noexcept { return key_of(key); }
};

template <>
struct Keys<std::uint64_t> {
    using Look = std::uint64_t;
    static constexpr std::int32_t kind = CELLAR_KEYS_NUMBERS;
    static cellar_key of(Look key) noexcept { return {nullptr, key}; }
};

inline double ratio(std::uint64_t hits, std::uint64_t misses) noexcept {
    const std::uint64_t reads = hits + misses;
    return reads == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(reads);
}

}  // namespace detail

// The eviction policy.
enum class Policy : std::int32_t { s3_fifo = CELLAR_S3_FIFO, lru = CELLAR_LRU };

// The limits and shards of a store; near.h documents each field.
struct LocalOptions {
    std::uint64_t entries_max = 10'000;
    std::uint64_t bytes_max = 0;  // if not zero, replaces entries_max
    std::optional<Milliseconds> ttl = std::nullopt;
    std::size_t shards = 0;  // 0: chosen for the machine
    Policy policy = Policy::s3_fifo;
};

// The counters of a store.
struct LocalStats : cellar_local_figures {
    // The hit ratio of all reads, from 0 to 1; 0 before the first read.
    double hit_ratio() const noexcept { return detail::ratio(hits, misses); }
};

// A bounded store of typed values in this process. K is std::string, with look-ups by
// std::string_view, or std::uint64_t. Any thread may use it. Copies refer to the same store, which
// is closed with the last of them.
template <class K, class T>
class Local {
public:
    using Look = typename detail::Keys<K>::Look;

    // Only copies: a moved-from object would have no store.
    Local(const Local&) = default;
    Local& operator=(const Local&) = default;

    static Result<Local> open(const LocalOptions& options = {}) {
        cellar_local_options given = cellar_local_defaults();
        given.entries_max = options.entries_max;
        given.bytes_max = options.bytes_max;
        given.ttl_ms = detail::count(options.ttl);
        given.shards = options.shards;
        given.policy = static_cast<std::int32_t>(options.policy);
        given.keys = detail::Keys<K>::kind;
        given.values = detail::Room<T>::type();
        cellar_error error;
        cellar_local* local = nullptr;
        const cellar_status status = cellar_local_open(&given, &local, &error);
        if (status != CELLAR_OK) return detail::error_of(status, error);
        return Local(local);
    }

    // Returns the value of `key`, or an empty Held. An internal error is reported as a miss.
    Held<T> get(Look key) const noexcept {
        const void* value = reader_.get(reader_.store, detail::Keys<K>::of(key));
        return Held<T>(cellar_held{value, value, reader_.holder});
    }

    // As get; on a miss this thread runs `loader`, or waits at most `wait_max` for the thread that
    // does. A loader takes no arguments and returns a T, a Made<T>, an optional or a Result of one
    // of these. It may throw, and may use the store for other keys.
    template <class Loader>
    Result<Held<T>> get_or_load(Look key, Loader&& loader,
                                std::optional<Milliseconds> wait_max = std::nullopt) const {
        detail::Loading<T, Local, Loader> loading{*this, loader};
        cellar_held held{nullptr, nullptr, nullptr};
        cellar_error error;
        const cellar_status status =
            cellar_local_get_or_load(local_.get(), detail::Keys<K>::of(key), &loading.run, &loading,
                                     detail::count(wait_max), &held, &error);
        return detail::found<T>(status, held, error);
    }

    // Stores `value` and replaces an older one. `more_bytes` is its size outside of the object.
    Result<void> insert(Look key, T value, std::optional<Milliseconds> ttl = std::nullopt,
                        std::uint64_t more_bytes = 0) const {
        cellar_error error;
        detail::Draft<T> made;
        cellar_status status = draft(made.out(), &error);
        if (status != CELLAR_OK) return detail::error_of(status, error);
        made.make(std::move(value));
        status = cellar_local_insert(local_.get(), detail::Keys<K>::of(key), made.out(),
                                     detail::count(ttl), more_bytes, &error);
        return detail::done(status, error);
    }

    // Removes `key`; returns whether it existed.
    Result<bool> remove(Look key) const {
        cellar_error error;
        return detail::whether(
            cellar_local_remove(local_.get(), detail::Keys<K>::of(key), &error), error);
    }

    // Removes all entries.
    Result<void> clear() const {
        cellar_error error;
        return detail::done(cellar_local_clear(local_.get(), &error), error);
    }

    // Removes expired entries; reads never return them in any case.
    Result<void> reclaim() const {
        cellar_error error;
        return detail::done(cellar_local_reclaim(local_.get(), &error), error);
    }

    Result<LocalStats> stats() const {
        cellar_error error;
        LocalStats stats{};
        const cellar_status status = cellar_local_stats(local_.get(), &stats, &error);
        if (status != CELLAR_OK) return detail::error_of(status, error);
        return stats;
    }

private:
    template <class, class, class>
    friend struct detail::Loading;

    explicit Local(cellar_local* local)
        : local_(local, [](cellar_local* open) { cellar_local_close(&open, nullptr); }) {
        cellar_local_reader(local, &reader_, nullptr);
    }

    cellar_status draft(cellar_draft* out, cellar_error* error) const noexcept {
        return cellar_local_draft(local_.get(), out, error);
    }

    std::shared_ptr<cellar_local> local_;
    cellar_reader reader_{};
};

// Encodes values of type T as bytes and decodes them. Specialise it, or give Near a class with
// these two static functions. Any thread may call both, including threads of the library. An
// exception becomes an Error of Status::codec.
template <class T, class = void>
struct Codec;

// Text and bytes, unchanged.
template <>
struct Codec<std::string> {
    static Result<void> encode(const std::string& value, std::string& out) {
        out += value;
        return {};
    }
    static Result<std::string> decode(std::string_view bytes) { return std::string(bytes); }
};

// Integers, in decimal.
template <class T>
struct Codec<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
    static Result<void> encode(const T& value, std::string& out) {
        out += std::to_string(value);
        return {};
    }
    static Result<T> decode(std::string_view bytes) {
        T value{};
        const char* end = bytes.data() + bytes.size();
        const auto [stop, problem] = std::from_chars(bytes.data(), end, value);
        if (problem != std::errc() || stop != end) return Error(Status::codec, "no whole number");
        return value;
    }
};

// How the cache learns of changes.
enum class Tracking : std::int32_t {
    keys = CELLAR_TRACK_KEYS,      // the server reports changes of each key that was read
    prefix = CELLAR_TRACK_PREFIX,  // the server reports changes of all keys with the prefix
    off = CELLAR_TRACK_OFF,        // no invalidations: set local_ttl
};

// The options of a near cache; near.h and docs/near.md document each field.
struct NearOptions {
    std::string address;  // redis://host:port or memcached://host:port
    std::string prefix;
    // For rediss:// and memcached://tls:, all in PEM: the trusted authorities, by default those of
    // the system; a client certificate for servers that request one, and its key.
    std::string tls_authorities = {};
    std::string tls_certificate = {};
    std::string tls_key = {};
    std::uint64_t entries_max = 10'000;
    std::uint64_t bytes_max = 0;  // if not zero, replaces entries_max
    std::size_t shards = 0;  // 0: chosen for the machine
    Policy policy = Policy::s3_fifo;
    Tracking tracking = Tracking::keys;
    std::optional<Milliseconds> local_ttl = std::nullopt;
    std::optional<Milliseconds> negative_ttl = std::nullopt;
    std::optional<Milliseconds> origin_ttl = std::nullopt;
    std::optional<Milliseconds> serve_stale = std::nullopt;
    std::optional<Milliseconds> lease_timeout = std::nullopt;  // zero: no leases
    std::optional<Milliseconds> patience = std::nullopt;
    std::optional<Milliseconds> timeout = std::nullopt;
    std::optional<Milliseconds> alive_bound = std::nullopt;
    std::optional<Milliseconds> wait_max = std::nullopt;
    double refresh_ahead = 0.0;
    double jitter = 0.0;
};

// The counters of a near cache.
struct NearStats : cellar_near_figures {
    // The hit ratio of all reads, from 0 to 1; 0 before the first read.
    double hit_ratio() const noexcept { return detail::ratio(hits, misses); }
};

// A cache of typed values in front of a server, which sends invalidations. Any thread may use it.
// Copies refer to the same cache, which is closed with the last of them.
template <class T, class C = Codec<T>>
class Near {
public:
    static Result<Near> open(const NearOptions& options) {
        cellar_near_options given = cellar_near_defaults();
        given.address = detail::bytes_of(options.address);
        given.prefix = detail::bytes_of(options.prefix);
        given.tls_authorities = detail::bytes_of(options.tls_authorities);
        given.tls_certificate = detail::bytes_of(options.tls_certificate);
        given.tls_key = detail::bytes_of(options.tls_key);
        given.entries_max = options.entries_max;
        given.bytes_max = options.bytes_max;
        given.shards = options.shards;
        given.policy = static_cast<std::int32_t>(options.policy);
        given.tracking = static_cast<std::int32_t>(options.tracking);
        given.local_ttl_ms = detail::count(options.local_ttl);
        given.negative_ttl_ms = detail::count(options.negative_ttl);
        given.origin_ttl_ms = detail::count(options.origin_ttl);
        given.serve_stale_ms = detail::count(options.serve_stale);
        given.lease_timeout_ms = detail::count(options.lease_timeout);
        given.patience_ms = detail::count(options.patience);
        given.timeout_ms = detail::count(options.timeout);
        given.alive_bound_ms = detail::count(options.alive_bound);
        given.wait_max_ms = detail::count(options.wait_max);
        given.refresh_ahead = options.refresh_ahead;
        given.jitter = options.jitter;
        given.values = detail::Room<T>::type();
        given.codec = {nullptr, &decode, &encode};
        cellar_error error;
        cellar_near* near = nullptr;
        const cellar_status status = cellar_near_open(&given, &near, &error);
        if (status != CELLAR_OK) return detail::error_of(status, error);
        return Near(near);
    }

    // Returns the value of `key` from memory or from the server; an empty Held if there is none.
    Result<Held<T>> get(std::string_view key) const {
        if (const void* value = reader_.get(reader_.store, detail::key_of(key))) {
            return Held<T>(cellar_held{value, value, reader_.holder});
        }
        cellar_held held{nullptr, nullptr, nullptr};
        cellar_error error;
        const cellar_status status =
            cellar_near_get(near_.get(), detail::key_of(key), &held, &error);
        return detail::found<T>(status, held, error);
    }

    // Returns the value of `key` from memory, if it may be used; sends no request.
    Held<T> peek(std::string_view key) const noexcept {
        cellar_held held{nullptr, nullptr, nullptr};
        cellar_near_peek(near_.get(), detail::key_of(key), &held);
        return Held<T>(held);
    }

    // As get; on a miss this thread runs `loader`, stores the value on the server and reads it
    // back. The loader is as for Local::get_or_load, but the TTL is always origin_ttl.
    template <class Loader>
    Result<Held<T>> get_or_load(std::string_view key, Loader&& loader) const {
        detail::Loading<T, Near, Loader> loading{*this, loader};
        cellar_held held{nullptr, nullptr, nullptr};
        cellar_error error;
        const cellar_status status = cellar_near_get_or_load(
            near_.get(), detail::key_of(key), &loading.run, &loading, &held, &error);
        return detail::found<T>(status, held, error);
    }

    // Stores `value` on the server; reads of this cache return it as soon as this returns.
    Result<void> set(std::string_view key, T value,
                     std::optional<Milliseconds> ttl = std::nullopt) const {
        cellar_error error;
        detail::Draft<T> made;
        cellar_status status = draft(made.out(), &error);
        if (status != CELLAR_OK) return detail::error_of(status, error);
        made.make(std::move(value));
        status = cellar_near_set(near_.get(), detail::key_of(key), made.out(), detail::count(ttl),
                                 &error);
        return detail::done(status, error);
    }

    // Removes `key` on the server; returns whether it existed.
    Result<bool> remove(std::string_view key) const {
        cellar_error error;
        return detail::whether(cellar_near_remove(near_.get(), detail::key_of(key), &error), error);
    }

    // Drops the copy of `key` in memory, without a request.
    Result<void> forget(std::string_view key) const {
        cellar_error error;
        return detail::done(cellar_near_forget(near_.get(), detail::key_of(key), &error), error);
    }

    Result<NearStats> stats() const {
        cellar_error error;
        NearStats stats{};
        const cellar_status status = cellar_near_stats(near_.get(), &stats, &error);
        if (status != CELLAR_OK) return detail::error_of(status, error);
        return stats;
    }

private:
    template <class, class, class>
    friend struct detail::Loading;

    explicit Near(cellar_near* near)
        : near_(near, [](cellar_near* open) { cellar_near_close(&open, nullptr); }) {
        cellar_near_reader(near, &reader_, nullptr);
    }

    cellar_status draft(cellar_draft* out, cellar_error* error) const noexcept {
        return cellar_near_draft(near_.get(), out, error);
    }

    static cellar_status decode(void*, const std::uint8_t* data, std::size_t length, void* slot,
                                cellar_error* error) noexcept {
        return detail::guarded(error, CELLAR_CODEC, [&]() -> cellar_status {
            Result<T> value = C::decode({reinterpret_cast<const char*>(data), length});
            if (value) {
                detail::Room<T>::make(slot, std::move(value).value());
                return CELLAR_OK;
            }
            detail::tell(error, CELLAR_CODEC, value.error().text());
            return CELLAR_CODEC;
        });
    }

    static cellar_status encode(void*, const void* value, cellar_sink* sink,
                                cellar_error* error) noexcept {
        return detail::guarded(error, CELLAR_CODEC, [&]() -> cellar_status {
            std::string bytes;
            const Result<void> encoded = C::encode(*detail::Room<T>::at(value), bytes);
            if (encoded) {
                const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
                return cellar_sink_write(sink, data, bytes.size());
            }
            detail::tell(error, CELLAR_CODEC, encoded.error().text());
            return CELLAR_CODEC;
        });
    }

    std::shared_ptr<cellar_near> near_;
    cellar_reader reader_{};
};

}  // namespace cellar

#endif  // CELLAR_NEAR_HPP
