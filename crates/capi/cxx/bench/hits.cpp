// Hits on one and two threads: the store and the near cache through their C++ header, compared with
// an LRU with a mutex, sixteen of these, and Debian's tbb::concurrent_lru_cache. All return
// reference-counted values. `cargo run --profile library --example hits` runs the same loop in
// Rust; `run` alternates between the two.
//
// hits ENTRIES READS SERVER: all entries are stored. Reads follow a Zipf distribution (0.99),
// generated in advance, and use the first byte of the value. Prints a line for each cache and
// number of threads. SERVER is the address of a Redis server for the near cache, or none.

#define TBB_PREVIEW_CONCURRENT_LRU_CACHE 1

#include <cellar/near.hpp>

#include <tbb/concurrent_lru_cache.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

using Value = std::array<std::uint8_t, 120>;

template <>
struct cellar::Codec<Value> {
    static Result<void> encode(const Value& value, std::string& out) {
        out.assign(value.begin(), value.end());
        return {};
    }
    static Result<Value> decode(std::string_view bytes) {
        Value value{};
        std::copy_n(bytes.begin(), std::min(bytes.size(), value.size()), value.begin());
        return value;
    }
};

namespace {

struct Load {
    std::uint64_t entries;
    std::uint64_t reads;
    std::vector<std::vector<std::uint32_t>> keys;  // per thread
};

// xorshift64*: the same numbers as in the Rust loop.
struct Random {
    std::uint64_t state;
    double next() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return static_cast<double>((state * 0x2545F4914F6CDD1DULL) >> 11) * 0x1.0p-53;
    }
};

std::vector<std::uint32_t> zipf(std::uint64_t entries, std::uint64_t reads, std::uint64_t seed) {
    std::vector<double> sums(entries);
    double sum = 0;
    for (std::uint64_t rank = 0; rank < entries; ++rank) {
        sum += std::pow(static_cast<double>(rank + 1), -0.99);
        sums[rank] = sum;
    }
    Random random{seed};
    std::vector<std::uint32_t> keys(reads);
    for (auto& key : keys) {
        const auto place = std::lower_bound(sums.begin(), sums.end(), random.next() * sum);
        const auto rank = static_cast<std::uint64_t>(place - sums.begin());
        // Ranks are spread over the keys, so that neighbours in rank are not neighbours in memory.
        key = static_cast<std::uint32_t>((rank * 0x9E3779B97F4A7C15ULL >> 11) % entries);
    }
    return keys;
}

Value value_of(std::uint64_t key) {
    Value value{};
    value[0] = static_cast<std::uint8_t>(key);
    return value;
}

// Returns the text of a key; all have the same length.
std::string text_of(std::uint64_t key) {
    char text[32];
    std::snprintf(text, sizeof text, "key:%010llu", static_cast<unsigned long long>(key));
    return text;
}

template <class Read>
void measure(const char* name, const Load& load, std::size_t threads, Read read) {
    std::vector<std::thread> running;
    std::vector<double> seconds(threads);
    for (std::size_t number = 0; number < threads; ++number) {
        running.emplace_back([&, number] {
            std::uint64_t sum = 0;
            const auto start = std::chrono::steady_clock::now();
            for (const std::uint32_t key : load.keys[number]) sum += read(key);
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
            seconds[number] = took.count();
            if (sum == 1) std::puts("");
        });
    }
    for (auto& thread : running) thread.join();
    double rate = 0;
    for (const double one : seconds) rate += static_cast<double>(load.reads) / one;
    std::printf("%s\t%zu\t%.0f\n", name, threads, rate);
    std::fflush(stdout);
}

// An LRU with one lock, as applications implement it.
class Lru {
public:
    explicit Lru(std::size_t most) : most_(most) {}

    void insert(std::uint64_t key, std::shared_ptr<const Value> value) {
        const std::lock_guard<std::mutex> lock(mutex_);
        order_.emplace_front(key, std::move(value));
        places_[key] = order_.begin();
        if (order_.size() > most_) {
            places_.erase(order_.back().first);
            order_.pop_back();
        }
    }

    std::shared_ptr<const Value> get(std::uint64_t key) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto place = places_.find(key);
        if (place == places_.end()) return nullptr;
        order_.splice(order_.begin(), order_, place->second);
        return place->second->second;
    }

private:
    using Order = std::list<std::pair<std::uint64_t, std::shared_ptr<const Value>>>;
    std::mutex mutex_;
    std::size_t most_;
    Order order_;
    std::unordered_map<std::uint64_t, Order::iterator> places_;
};

constexpr std::uint64_t room_for(const Load& load) { return load.entries + load.entries / 4; }

// Reads on one thread, then on two; `get` returns a pointer to the value.
template <class Get>
void read(const char* name, const Load& load, Get get) {
    for (const std::size_t threads : {std::size_t{1}, std::size_t{2}}) {
        measure(name, load, threads, [&](std::uint32_t key) -> std::uint64_t {
            const auto held = get(key);
            if (!held) std::abort();
            return (*held)[0];
        });
    }
}

template <class K, class Name>
void run_local(const char* name, const Load& load, const std::vector<Name>& names) {
    cellar::LocalOptions options;
    options.entries_max = room_for(load);
    auto opened = cellar::Local<K, Value>::open(options);
    if (!opened) std::abort();
    const auto& store = opened.value();
    for (std::uint64_t key = 0; key < load.entries; ++key) {
        if (!store.insert(names[key], value_of(key))) std::abort();
    }
    read(name, load, [&](std::uint32_t key) { return store.get(names[key]); });
}

void run_near(const Load& load, const std::string& server, const std::vector<std::string>& names) {
    cellar::NearOptions options;
    options.address = server;
    options.entries_max = room_for(load);
    auto opened = cellar::Near<Value>::open(options);
    if (!opened) std::abort();
    const auto& near = opened.value();
    for (std::uint64_t key = 0; key < load.entries; ++key) {
        if (!near.set(names[key], value_of(key)) || !near.get(names[key])) std::abort();
    }
    read("C++ near cache, text", load, [&](std::uint32_t key) {
        auto got = near.get(names[key]);
        if (!got) std::abort();
        return std::move(got).value();
    });
}

void run_lrus(const char* name, const Load& load, std::size_t shards) {
    std::vector<std::unique_ptr<Lru>> lrus;
    while (lrus.size() < shards) lrus.push_back(std::make_unique<Lru>(room_for(load) / shards));
    for (std::uint64_t key = 0; key < load.entries; ++key) {
        lrus[key % shards]->insert(key, std::make_shared<const Value>(value_of(key)));
    }
    read(name, load, [&](std::uint32_t key) { return lrus[key % shards]->get(key); });
}

void run_tbb(const Load& load) {
    using Cache = tbb::concurrent_lru_cache<std::uint64_t, std::shared_ptr<const Value>>;
    Cache cache([](std::uint64_t key) { return std::make_shared<const Value>(value_of(key)); },
                room_for(load));
    for (std::uint64_t key = 0; key < load.entries; ++key) cache[key];
    read("tbb::concurrent_lru_cache", load, [&](std::uint32_t key) { return cache[key].value(); });
}

}  // namespace

int main(int count, char** words) {
    if (count != 4) return 2;
    Load load{std::strtoull(words[1], nullptr, 10), std::strtoull(words[2], nullptr, 10), {}};
    const std::string server = words[3];
    for (const std::uint64_t seed : {1, 2}) load.keys.push_back(zipf(load.entries, load.reads, seed));
    std::vector<std::uint64_t> numbers(load.entries);
    std::vector<std::string> texts(load.entries);
    for (std::uint64_t key = 0; key < load.entries; ++key) {
        numbers[key] = key;
        texts[key] = text_of(key);
    }
    run_local<std::uint64_t>("C++ store, numbers", load, numbers);
    run_local<std::string>("C++ store, text", load, texts);
    if (server != "none") run_near(load, server, texts);
    run_lrus("LRU with a mutex", load, 1);
    run_lrus("16 LRUs with a mutex each", load, 16);
    run_tbb(load);
    return 0;
}
