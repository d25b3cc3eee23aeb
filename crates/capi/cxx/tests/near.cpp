// The near cache in C++, with the servers whose addresses are given: first one that sends
// invalidations, then one with the memcached protocol.

#include <cellar/near.hpp>

#include <atomic>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "check.hpp"

using namespace std::chrono_literals;
using cellar::Error;
using cellar::Held;
using cellar::Near;
using cellar::NearOptions;
using cellar::Result;
using cellar::Status;

// A text and a number; decoding anything else fails.
struct Point {
    std::string name;
    std::int64_t x = 0;
};

template <>
struct cellar::Codec<Point> {
    static Result<void> encode(const Point& point, std::string& out) {
        if (point.name == "unspeakable") return Error(Status::codec, "it has no bytes");
        if (point.name == "thrown") throw std::runtime_error("thrown while writing");
        out += point.name + "@" + std::to_string(point.x);
        return {};
    }
    static Result<Point> decode(std::string_view bytes) {
        const auto at = bytes.find('@');
        if (at == bytes.npos) return Error(Status::codec, "no point");
        if (bytes == "@") throw std::runtime_error("thrown while reading");
        return Point{std::string(bytes.substr(0, at)),
                     std::stoll(std::string(bytes.substr(at + 1)))};
    }
};

namespace {

std::string server;
std::string daemon;

// Time-out for a busy machine.
constexpr std::chrono::seconds patience{20};

template <class T>
Near<T> open(std::string prefix, NearOptions options = {}) {
    options.address = server;
    options.prefix = std::move(prefix);
    if (!options.timeout) options.timeout = options.alive_bound = patience;
    auto opened = Near<T>::open(options);
    CHECK(opened);
    return std::move(opened).value();
}

// Reads `key` until its copy stays: the invalidation of an own write may arrive after the next
// read.
template <class T>
Held<T> kept(const Near<T>& near, std::string_view key) {
    Held<T> copy;
    wait_until([&] { return near.get(key).value() && (copy = near.peek(key)); });
    return copy;
}

void a_value_is_written_read_and_served_from_memory() {
    const auto near = open<Point>("p:");
    CHECK(!near.get("k").value() && !near.peek("k"));
    CHECK(near.set("k", Point{"Ada", 7}));
    CHECK(near.get("k").value()->x == 7);
    const Held<Point> held = kept(near, "k");
    CHECK(held->name == "Ada" && held->x == 7 && !held.is_stale());
    CHECK(near.get("k").value().get() == held.get() && near.peek("k").get() == held.get());
    const auto stats = near.stats().value();
    CHECK(stats.hits >= 1 && stats.entries == 1 && stats.hit_ratio() > 0.0);
    CHECK(near.forget("k") && !near.peek("k") && near.get("k").value()->x == 7);
    CHECK(near.remove("k").value() && !near.remove("k").value());
    CHECK(!near.get("k").value() && held->name == "Ada");
    CHECK(near.set("brief", Point{"b", 1}, 20ms));
    wait_until([&] { return !near.get("brief").value(); });
}

void what_another_changes_goes_while_nobody_calls() {
    const auto near = open<std::string>("c:");
    const auto other = open<std::string>("c:");
    CHECK(near.set("k", "one") && *kept(near, "k") == "one");
    CHECK(other.set("k", "two"));
    wait_until([&] { return !near.peek("k"); });
    CHECK(*near.get("k").value() == "two");
    CHECK(near.stats().value().invalidations >= 1);
}

void changes_below_a_prefix_are_told_too() {
    NearOptions options;
    options.tracking = cellar::Tracking::prefix;
    const auto near = open<std::int64_t>("b:", options);
    const auto other = open<std::int64_t>("b:");
    CHECK(near.set("k", -1) && *kept(near, "k") == -1);
    CHECK(other.set("k", 2));
    wait_until([&] { return !near.peek("k"); });
    CHECK(*near.get("k").value() == 2);
}

void of_many_threads_one_loads_a_key() {
    const auto near = open<std::string>("l:");
    std::atomic<int> calls{0};
    std::vector<std::thread> threads;
    for (int number = 0; number < 8; ++number) {
        threads.emplace_back([&] {
            const auto told = near.get_or_load("k", [&] {
                ++calls;
                wait_until([&] { return near.stats().value().shared >= 7; });
                return std::string("made");
            });
            CHECK(*told.value() == "made");
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(calls == 1 && *kept(near, "k") == "made");
}

Near<std::string> open_at(const std::string& address, std::string prefix) {
    NearOptions options;
    options.address = address;
    options.prefix = std::move(prefix);
    options.local_ttl = 60s;
    options.timeout = options.alive_bound = patience;
    auto opened = Near<std::string>::open(options);
    CHECK(opened);
    return std::move(opened).value();
}

void what_is_written_while_a_loader_runs_is_not_overwritten() {
    for (const auto& address : {server, daemon}) {
        for (const bool own : {true, false}) {
            const auto near = open_at(address, "w:");
            const auto other = open_at(address, "w:");
            const auto& writer = own ? near : other;
            CHECK(near.remove("set") && near.remove("removed") && near.remove("forgotten"));
            CHECK(near.get_or_load("set", [&] {
                CHECK(writer.set("set", "new"));
                return std::string("old");
            }));
            CHECK(near.get_or_load("removed", [&] {
                CHECK(writer.remove("removed"));
                return std::string("old");
            }));
            CHECK(near.get_or_load("forgotten", [&] {
                CHECK(near.forget("forgotten"));
                return std::string("old");
            }));
            const auto fresh = open_at(address, "w:");
            for (const auto* one : {&near, &other, &fresh}) {
                CHECK(*one->get("set").value() == "new");
                CHECK(!one->get("removed").value() && !one->get("forgotten").value());
            }
        }
    }
}

void a_cache_may_be_bounded_by_bytes() {
    NearOptions options;
    options.bytes_max = 20'000;
    options.shards = 1;
    options.origin_ttl = 60s;
    const auto near = open<std::string>("y:", options);
    for (int number = 0; number < 100; ++number) {
        const std::string key = std::to_string(number);
        CHECK(near.set(key, std::string(1'000, 'v')) && near.get(key).value());
    }
    const auto full = near.stats().value();
    CHECK(full.weight <= 20'000 && full.entries <= 18 && full.too_heavy == 0);
    CHECK(near.set("heavy", std::string(20'001, 'v')));
    CHECK(near.get("heavy").value()->size() == 20'001 && !near.peek("heavy"));
    CHECK(near.stats().value().too_heavy >= 1);
}

void what_a_loader_throws_is_an_error_for_all_who_wait() {
    const auto near = open<std::string>("t:");
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number) {
        threads.emplace_back([&] {
            const auto told = near.get_or_load("k", [&]() -> std::string {
                wait_until([&] { return near.stats().value().shared >= 3; });
                throw std::runtime_error("the database is away");
            });
            CHECK(!told && told.error().status() == Status::loader);
            CHECK(told.error().text() == "the database is away");
        });
    }
    for (auto& thread : threads) thread.join();
    const auto refuse = [] { return Result<std::string>(Error(Status::refused, "not you")); };
    CHECK(near.get_or_load("k", refuse).error().status() == Status::refused);
    CHECK(!near.get_or_load("k", [] { return std::optional<std::string>(); }).value());
}

void a_loader_may_use_the_cache_but_not_for_its_own_key() {
    const auto near = open<std::string>("o:");
    const auto told = near.get_or_load("k", [&] {
        CHECK(near.get("k").error().status() == Status::own_load);
        const auto other = near.get_or_load("other", [] { return std::string("o"); });
        return *other.value() + "uter";
    });
    CHECK(*told.value() == "outer");
}

void what_cannot_be_converted_is_an_error() {
    const auto text = open<std::string>("x:");
    const auto points = open<Point>("x:");
    CHECK(text.set("k", "nonsense"));
    CHECK(points.get("k").error().status() == Status::codec);
    CHECK(points.get("k").error().text().find("no point") != std::string::npos);
    CHECK(text.set("k", "@"));
    const auto thrown = points.get("k");
    CHECK(thrown.error().text().find("thrown while reading") != std::string::npos);
    CHECK(points.set("k", Point{"unspeakable"}).error().status() == Status::codec);
    const auto unwritten = points.set("k", Point{"thrown"});
    CHECK(unwritten.error().text().find("thrown while writing") != std::string::npos);
    const auto numbers = open<std::int64_t>("x:");
    CHECK(numbers.get("k").error().text().find("no whole number") != std::string::npos);
}

void memcacheds_protocol_serves_too() {
    NearOptions options;
    options.address = daemon;
    options.local_ttl = 60s;
    auto opened = Near<std::string>::open(options);
    CHECK(opened);
    const auto& near = opened.value();
    CHECK(near.set("k", "v") && *near.get("k").value() == "v" && near.peek("k"));
    const auto refused = near.set(std::string(300, 'k'), "v");
    CHECK(refused.error().status() == Status::key_too_long);
}

void a_server_that_is_not_there_is_an_error() {
    NearOptions options;
    options.address = "redis://127.0.0.1:1";
    options.timeout = 200ms;
    auto opened = Near<std::string>::open(options);
    CHECK(opened && opened.value().get("k").error().status() == Status::connection);
    CHECK(opened.value().set("k", "v").error().status() == Status::connection);
}

void settings_that_there_are_not_are_refused() {
    NearOptions options;
    options.address = "no address";
    CHECK(!Near<std::string>::open(options));
    options.address = server;
    options.jitter = 2.0;
    CHECK(Near<std::string>::open(options).error().status() == Status::bad_argument);
    options.jitter = 0.0;
    options.tracking = static_cast<cellar::Tracking>(7);
    CHECK(Near<std::string>::open(options).error().text() == "there is no tracking 7");
}

void values_outlive_their_cache() {
    Held<Point> held;
    {
        const auto near = open<Point>("v:");
        CHECK(near.set("k", Point{"Ada", 7}));
        const auto copy = near;
        held = copy.get("k").value();
    }
    const Held<Point> again = held;
    held = {};
    CHECK(again->name == "Ada" && again.shared()->x == 7);
}

void threads_may_do_everything_at_once() {
    NearOptions options;
    options.entries_max = 50;
    const auto near = open<Point>("m:", options);
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        threads.emplace_back([&near, seed] {
            std::uint64_t random = seed;
            for (int times = 0; times < 300; ++times) {
                random = random * 6364136223846793005ULL + 1442695040888963407ULL;
                const auto number = static_cast<std::int64_t>((random >> 33) % 100);
                const std::string key = std::to_string(number);
                const auto made = [&] { return Point{key, number}; };
                switch ((random >> 60) % 4) {
                    case 0: CHECK(near.set(key, made())); break;
                    case 1: CHECK(near.remove(key)); break;
                    default: CHECK(near.get_or_load(key, made).value()->x == number);
                }
            }
        });
    }
    for (auto& thread : threads) thread.join();
}

}  // namespace

int main(int count, char** words) {
    CHECK(count == 3);
    server = words[1];
    daemon = words[2];
    RUN(a_value_is_written_read_and_served_from_memory);
    RUN(what_another_changes_goes_while_nobody_calls);
    RUN(changes_below_a_prefix_are_told_too);
    RUN(of_many_threads_one_loads_a_key);
    RUN(what_is_written_while_a_loader_runs_is_not_overwritten);
    RUN(a_cache_may_be_bounded_by_bytes);
    RUN(what_a_loader_throws_is_an_error_for_all_who_wait);
    RUN(a_loader_may_use_the_cache_but_not_for_its_own_key);
    RUN(what_cannot_be_converted_is_an_error);
    RUN(memcacheds_protocol_serves_too);
    RUN(a_server_that_is_not_there_is_an_error);
    RUN(settings_that_there_are_not_are_refused);
    RUN(values_outlive_their_cache);
    RUN(threads_may_do_everything_at_once);
    return 0;
}
