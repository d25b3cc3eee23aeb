// Hits on one and two threads: the store through its C++ header, beside an LRU with a mutex and
// Debian's tbb::concurrent_lru_cache. `cargo run --profile library --example hits` is the same loop
// over the Rust store; bench.sh runs both in turns.
//
// hits ENTRIES READS ROUNDS: all entries are there, reads follow Zipf's law (0.99), drawn before; the
// value's first byte is looked at. A line for each cache, round and number of threads.

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

namespace {

struct Load {
    std::uint64_t entries;
    std::uint64_t reads;
    std::vector<std::vector<std::uint32_t>> keys;  // for each thread
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
        // Ranks are spread over the keys, so that neighbours in rank are none in memory.
        key = static_cast<std::uint32_t>((rank * 0x9E3779B97F4A7C15ULL >> 11) % entries);
    }
    return keys;
}

Value value_of(std::uint64_t key) {
    Value value{};
    value[0] = static_cast<std::uint8_t>(key);
    return value;
}

// The text of a key, all of one length.
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

// An LRU under one lock, as it is written by hand.
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

template <class K, class Name>
void run_local(const char* name, const Load& load, const std::vector<Name>& names) {
    cellar::LocalOptions options;
    options.entries_max = load.entries + load.entries / 4;
    auto opened = cellar::Local<K, Value>::open(options);
    if (!opened) std::abort();
    const auto& store = opened.value();
    for (std::uint64_t key = 0; key < load.entries; ++key) {
        if (!store.insert(names[key], value_of(key))) std::abort();
    }
    for (const std::size_t threads : {std::size_t{1}, std::size_t{2}}) {
        measure(name, load, threads, [&](std::uint32_t key) -> std::uint64_t {
            const auto held = store.get(names[key]);
            if (!held) std::abort();
            return (*held)[0];
        });
    }
}

void run_lru(const Load& load) {
    Lru lru(load.entries + load.entries / 4);
    for (std::uint64_t key = 0; key < load.entries; ++key) {
        lru.insert(key, std::make_shared<const Value>(value_of(key)));
    }
    for (const std::size_t threads : {std::size_t{1}, std::size_t{2}}) {
        measure("mutex LRU, numbers", load, threads,
                [&](std::uint32_t key) -> std::uint64_t { return (*lru.get(key))[0]; });
    }
}

void run_tbb(const Load& load) {
    using Cache = tbb::concurrent_lru_cache<std::uint64_t, std::shared_ptr<const Value>>;
    Cache cache([](std::uint64_t key) { return std::make_shared<const Value>(value_of(key)); },
                load.entries + load.entries / 4);
    for (std::uint64_t key = 0; key < load.entries; ++key) cache[key];
    for (const std::size_t threads : {std::size_t{1}, std::size_t{2}}) {
        measure("tbb::concurrent_lru_cache, numbers", load, threads,
                [&](std::uint32_t key) -> std::uint64_t { return (*cache[key].value())[0]; });
    }
}

}  // namespace

int main(int count, char** words) {
    if (count != 4) return 2;
    Load load{std::strtoull(words[1], nullptr, 10), std::strtoull(words[2], nullptr, 10), {}};
    const auto rounds = std::strtoull(words[3], nullptr, 10);
    for (const std::uint64_t seed : {1, 2}) load.keys.push_back(zipf(load.entries, load.reads, seed));
    std::vector<std::uint64_t> numbers(load.entries);
    std::vector<std::string> texts(load.entries);
    for (std::uint64_t key = 0; key < load.entries; ++key) {
        numbers[key] = key;
        texts[key] = text_of(key);
    }
    for (unsigned long long round = 0; round < rounds; ++round) {
        run_local<std::uint64_t>("C++ store, numbers", load, numbers);
        run_local<std::string>("C++ store, text", load, texts);
        run_lru(load);
        run_tbb(load);
    }
    return 0;
}
